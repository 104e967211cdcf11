# What lacuna's own tests, examples and benchmarks share. Consumers never read this file.
if(LACUNA_CUDA_ENABLED)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80;90a-real")  # 80 keeps PTX, so that a newer GPU runs something
  endif()
  enable_language(CUDA)
endif()

add_library(lacuna_program INTERFACE)
target_link_libraries(lacuna_program INTERFACE lacuna::lacuna)
set(CMAKE_CXX_EXTENSIONS OFF)
target_compile_options(lacuna_program INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow>
  $<$<AND:$<BOOL:${LACUNA_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

add_library(lacuna_cuda_program INTERFACE)
target_link_libraries(lacuna_cuda_program INTERFACE lacuna_program lacuna::cuda)
# Registers that spill and local arrays that end up in memory are warnings of ptxas, and -Werror=all-warnings stops the build on them too.
set(LACUNA_CUDA_WARNINGS -Xcompiler=-Wall,-Wextra -Xptxas=-warn-spills,-warn-lmem-usage)
set(LACUNA_CUDA_WERROR -Werror=all-warnings)
target_compile_options(lacuna_cuda_program INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:${LACUNA_CUDA_WARNINGS}>"
  "$<$<AND:$<BOOL:${LACUNA_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:${LACUNA_CUDA_WERROR}>")

# Everything that nvcc compiles by default: what the cuda preset builds, beside the host preset.
if(LACUNA_CUDA_ENABLED)
  add_custom_target(device)
endif()

# OpenBLAS, where there is one: a yardstick for benchmarks, matrix products for examples. Link lacuna_blas if(TARGET lacuna_blas).
if(NOT DEFINED BLA_VENDOR)
  set(BLA_VENDOR OpenBLAS)
endif()
find_package(BLAS QUIET)
find_path(LACUNA_CBLAS_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread)
if(BLAS_FOUND AND LACUNA_CBLAS_DIR)
  add_library(lacuna_blas INTERFACE)
  target_link_libraries(lacuna_blas INTERFACE BLAS::BLAS)
  target_include_directories(lacuna_blas SYSTEM INTERFACE "${LACUNA_CBLAS_DIR}")
endif()

# The programs of one folder: <folder>/*.cpp and, with CUDA, <folder>/*.cu.
function(lacuna_programs folder result)
  file(GLOB found CONFIGURE_DEPENDS "${folder}/*.cpp")
  if(LACUNA_CUDA_ENABLED)
    file(GLOB device CONFIGURE_DEPENDS "${folder}/*.cu")
    list(APPEND found ${device})
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# A program of one source file; a .cu one gets the device target.
function(lacuna_add_program target source)
  add_executable(${target} "${source}")
  if(source MATCHES "\\.cu$")
    target_link_libraries(${target} PRIVATE lacuna_cuda_program)
    add_dependencies(device ${target})
  else()
    target_link_libraries(${target} PRIVATE lacuna_program)
  endif()
endfunction()
