# Finds LibTorch and makes the target `libtorch`: headers, torch_cpu and c10, and nothing of CUDA.
#
# In this order: Torch_DIR (the folder with TorchConfig.cmake, of an unpacked libtorch or of a pip
# package), Debian's libtorch-dev, the torch package of the Python ANOLE_PYTHON. LibTorch's own CMake
# package is not used: that of a pip package demands the CUDA toolkit.
#
# Sets ANOLE_TORCH_VERSION, ANOLE_TORCH_STANDARD (the C++ standard its headers need) and ANOLE_TORCH_LIBS.

set(ANOLE_PYTHON "python3" CACHE STRING "Python whose torch package may be used")

# Looks under `prefix`; sets torch_headers, torch_api, torch_cpu and torch_c10 when all is there.
function(anole_look_for_torch prefix)
    unset(torch_headers CACHE)
    unset(torch_api CACHE)
    unset(torch_cpu CACHE)
    unset(torch_c10 CACHE)
    find_path(torch_headers ATen/ATen.h PATHS "${prefix}/include" NO_DEFAULT_PATH)
    find_path(torch_api torch/version.h PATHS "${prefix}/include/torch/csrc/api/include" NO_DEFAULT_PATH)
    find_library(torch_cpu torch_cpu PATHS "${prefix}/lib" "${prefix}/lib/${CMAKE_LIBRARY_ARCHITECTURE}"
                 NO_DEFAULT_PATH)
    find_library(torch_c10 c10 PATHS "${prefix}/lib" "${prefix}/lib/${CMAKE_LIBRARY_ARCHITECTURE}"
                 NO_DEFAULT_PATH)
endfunction()

macro(anole_torch_found)
    if(torch_headers AND torch_api AND torch_cpu AND torch_c10)
        set(torch_is_found TRUE)
    endif()
endmacro()

set(torch_is_found FALSE)
if(Torch_DIR)
    get_filename_component(prefix "${Torch_DIR}/../../.." ABSOLUTE)
    anole_look_for_torch("${prefix}")
    anole_torch_found()
    if(NOT torch_is_found)
        # Debian's lies under lib/ARCHITECTURE/cmake.
        get_filename_component(prefix "${Torch_DIR}/../../../.." ABSOLUTE)
        anole_look_for_torch("${prefix}")
        anole_torch_found()
    endif()
    if(NOT torch_is_found)
        message(FATAL_ERROR "Torch_DIR is ${Torch_DIR}, but there is no LibTorch around it: it has to be "
                            "the folder share/cmake/Torch of an unpacked libtorch")
    endif()
else()
    anole_look_for_torch(/usr)
    anole_torch_found()
    if(NOT torch_is_found)
        execute_process(
            COMMAND "${ANOLE_PYTHON}" -c
                    "import importlib.util as u; s = u.find_spec('torch'); print(list(s.submodule_search_locations)[0])"
            OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
        if(NOT failed)
            anole_look_for_torch("${prefix}")
            anole_torch_found()
        endif()
    endif()
endif()
if(NOT torch_is_found)
    message(FATAL_ERROR
        "LibTorch was not found. Give one of:\n"
        "  -DTorch_DIR=FOLDER with the folder share/cmake/Torch of an unpacked libtorch\n"
        "  Debian's packages: apt install libtorch-dev libopenblas0-pthread\n"
        "  -DANOLE_PYTHON=PYTHON with a Python that has the package torch")
endif()

# 1.13 has its version in torch/version.h, newer ones in a header that this one includes.
set(ANOLE_TORCH_VERSION "")
foreach(header "${torch_api}/torch/version.h" "${torch_headers}/torch/headeronly/version.h")
    if(EXISTS "${header}" AND NOT ANOLE_TORCH_VERSION)
        file(STRINGS "${header}" lines REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
        string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
        string(REPLACE ";" "." ANOLE_TORCH_VERSION "${numbers}")
    endif()
endforeach()
file(STRINGS "${torch_headers}/ATen/ATen.h" needs20 REGEX "C\\+\\+20 or later")
if(needs20)
    set(ANOLE_TORCH_STANDARD 20)
else()
    set(ANOLE_TORCH_STANDARD 17)
endif()
get_filename_component(ANOLE_TORCH_LIBS "${torch_cpu}" DIRECTORY)
message(STATUS "LibTorch ${ANOLE_TORCH_VERSION} in ${ANOLE_TORCH_LIBS}")

add_library(libtorch INTERFACE)
target_include_directories(libtorch SYSTEM INTERFACE "${torch_headers}" "${torch_api}")
target_link_libraries(libtorch INTERFACE "${torch_cpu}" "${torch_c10}")
# torch_cpu of a pip package finds CUDA's small libraries by its own RPATH, which the linker ignores.
target_link_options(libtorch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath-link,${ANOLE_TORCH_LIBS}")
