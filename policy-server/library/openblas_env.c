/* Sets OpenBLAS up from the features of the CPU, before OpenBLAS reads the environment.
 *
 * OpenBLAS chooses its kernels by the CPU's model number, and a model younger than the library falls back
 * to kernels without AVX. The features are reliable; OPENBLAS_CORETYPE tells it. OpenBLAS reads it in a
 * constructor of its own, which runs before those of whatever links it. So this is a library of its own,
 * linked with -z initfirst: glibc runs its constructor first of all that one dlopen(3) brings.
 *
 * What the user has set stays. */
#include <stdlib.h>

__attribute__((constructor)) static void set_up_openblas(void) {
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
    }
#endif
}
