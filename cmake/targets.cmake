# lacuna::lacuna: every .hpp, plain C++20. lacuna::cuda: adds every .cuh, which needs nvcc.
find_package(Threads REQUIRED)
file(GLOB_RECURSE LACUNA_HOST_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/lacuna/*.hpp")
file(GLOB_RECURSE LACUNA_CUDA_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/lacuna/*.cuh")

add_library(lacuna INTERFACE)
add_library(lacuna::lacuna ALIAS lacuna)
target_compile_features(lacuna INTERFACE cxx_std_20)
target_link_libraries(lacuna INTERFACE Threads::Threads)
target_sources(lacuna INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${LACUNA_HOST_HEADERS})

add_library(lacuna_cuda INTERFACE)
add_library(lacuna::cuda ALIAS lacuna_cuda)
set_target_properties(lacuna_cuda PROPERTIES EXPORT_NAME cuda)
target_link_libraries(lacuna_cuda INTERFACE lacuna CUDA::toolkit)  # headers; nvcc links the runtime that the target asks for
target_sources(lacuna_cuda INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${LACUNA_CUDA_HEADERS})
# CMake learnt cuda_std_20 later than 3.25 for some nvcc versions, so the flag is spelt out.
target_compile_options(lacuna_cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
# In host passes __CUDA_ARCH_LIST__ is 900 for sm_90 and sm_90a alike: the consumer's own list says which of them it is.
set(sm90a_names 90a 90a-real 90a-virtual)
list(TRANSFORM sm90a_names REPLACE "(.+)" "$<IN_LIST:\\1,$<TARGET_PROPERTY:CUDA_ARCHITECTURES>>")
list(JOIN sm90a_names "," sm90a_names)
target_compile_definitions(lacuna_cuda INTERFACE $<$<OR:${sm90a_names}>:LACUNA_HAS_SM90A=1>)

if(LACUNA_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(LACUNA_CUDA_ENABLED ON)
  else()
    set(LACUNA_CUDA_ENABLED OFF)
  endif()
else()
  set(LACUNA_CUDA_ENABLED ${LACUNA_CUDA})
endif()
if(LACUNA_CUDA_ENABLED)
  find_package(CUDAToolkit REQUIRED GLOBAL)
endif()
