# What lacuna's own tests, examples and benchmarks share. Consumers never read this file.
if(LACUNA_CUDA_ENABLED)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80;90a-real")  # 80 keeps PTX, so that a newer GPU runs something
  endif()
  enable_language(CUDA)
endif()

add_library(lacuna_program INTERFACE)
target_link_libraries(lacuna_program INTERFACE lacuna::lacuna)
target_compile_options(lacuna_program INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow>
  $<$<AND:$<BOOL:${LACUNA_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

add_library(lacuna_cuda_program INTERFACE)
target_link_libraries(lacuna_cuda_program INTERFACE lacuna_program lacuna::cuda)
# Registers that spill and local arrays that end up in memory are warnings here, so -Werror all-warnings stops the build on them.
target_compile_options(lacuna_cuda_program INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra -Xptxas -warn-spills,-warn-lmem-usage>"
  "$<$<AND:$<BOOL:${LACUNA_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:SHELL:-Werror all-warnings>")
