#include "shortage.h"

#include <cstdlib>
#include <new>

thread_local int allocations_to_refuse = 0;

void* operator new(std::size_t bytes) {
    if (allocations_to_refuse > 0) {
        allocations_to_refuse--;
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
