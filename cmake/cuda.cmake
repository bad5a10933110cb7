# The CUDA backend, a shared object of its own: built where nvcc is, else the build says so and goes on. The CUDA runtime
# is linked into it, so it needs the driver alone, and the library opens it at run time (src/backend/load.c).
# VICINAL_CUDA_ARCHITECTURES: "fast" builds for the GPU of this machine (sm_90 where there is none), "all" for every generation from sm_80
# on, with PTX for later ones; or a CMake list of architectures.
if(VICINAL_TESTS)
    # For the loader's test: an object of another interface. It needs no nvcc.
    add_library(wrong_object MODULE test/gpu/wrong_object.c)
endif()
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(ENV{CUDACXX} /usr/local/cuda/bin/nvcc)
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
    message(STATUS "no nvcc: building without the CUDA backend")
    return()
endif()

set(VICINAL_CUDA_ARCHITECTURES fast CACHE STRING "fast, all, or a list of CUDA architectures")
if(VICINAL_CUDA_ARCHITECTURES STREQUAL "all")
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90-real 100-real 120)
elseif(VICINAL_CUDA_ARCHITECTURES STREQUAL "fast")
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
    if(EXISTS /dev/nvidia0 AND NOT CMAKE_VERSION VERSION_LESS 3.24)
        set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
else()
    set(CMAKE_CUDA_ARCHITECTURES ${VICINAL_CUDA_ARCHITECTURES})
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

file(GLOB cuda_sources CONFIGURE_DEPENDS src/backend/cuda/*.c src/backend/cuda/*.cu)
add_library(vicinal_cuda SHARED ${cuda_sources} src/base/mem.c src/base/thread.c)
target_include_directories(vicinal_cuda PRIVATE include src)
target_include_directories(vicinal_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(vicinal_cuda PRIVATE _DEFAULT_SOURCE _POSIX_C_SOURCE=200809L)
target_compile_options(vicinal_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
        -ffp-contract=off -fno-fast-math -fno-math-errno -fvisibility=hidden>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-fvisibility=hidden>)
target_link_libraries(vicinal_cuda PRIVATE CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS} rt)
# nvcc makes C++ of the host side; its runtime goes inside, so that the object needs no more than the library does.
target_link_options(vicinal_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--no-undefined -static-libstdc++ -static-libgcc)
install(TARGETS vicinal_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(VICINAL_TESTS)
    # Each program is skipped where no GPU can be used. The CPU's own tests run with the GPU in their table too.
    file(GLOB gpu_tests CONFIGURE_DEPENDS test/gpu/*.c)
    list(FILTER gpu_tests EXCLUDE REGEX "/(pair|wrong_object)\\.c$")
    add_library(gpu_late OBJECT test/gpu/late.cu)
    target_include_directories(gpu_late PRIVATE test)
    foreach(source ${gpu_tests})
        get_filename_component(name ${source} NAME_WE)
        add_executable(test_gpu_${name} ${source} test/gpu/pair.c $<TARGET_OBJECTS:gpu_late>)
        target_include_directories(test_gpu_${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
        target_link_libraries(test_gpu_${name} PRIVATE test_support CUDA::cudart_static)
        add_dependencies(test_gpu_${name} vicinal_cuda)
        add_test(NAME gpu/${name} COMMAND test_gpu_${name})
        set_tests_properties(gpu/${name} PROPERTIES LABELS gpu TIMEOUT 1500 SKIP_RETURN_CODE 77 RUN_SERIAL ON)
    endforeach()
    if(EXISTS /dev/nvidia0)
        foreach(name property/search property/batch property/questions cases/selection cases/ties cases/numbers cases/sizes
                unit/api_semantics unit/api_index unit/api_memory)
            string(REPLACE "/" "_" program test_${name})
            add_test(NAME gpu/${name} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
            set_tests_properties(gpu/${name} PROPERTIES LABELS gpu TIMEOUT 1500 ENVIRONMENT VICINAL_TEST_DEVICE=cuda)
        endforeach()
    endif()
endif()

if(VICINAL_BENCH)
    add_executable(bench_exact_gpu bench/gpu/exact.c)
    target_include_directories(bench_exact_gpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(bench_exact_gpu PRIVATE vicinal_static CUDA::cudart_static)
    add_executable(bench_roof bench/gpu/roof.cu)
endif()
