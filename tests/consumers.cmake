# Other people's projects, as they would write them. Each is configured and built from nothing, then run.
set(prefix "${CMAKE_CURRENT_BINARY_DIR}/consumers/prefix")
add_test(NAME consumer.install
         COMMAND "${CMAKE_COMMAND}" -D "PREFIX=${prefix}" -D "BUILD=${PROJECT_BINARY_DIR}" -P "${CMAKE_CURRENT_SOURCE_DIR}/consumers/install.cmake")
set_tests_properties(consumer.install PROPERTIES LABELS consumer FIXTURES_SETUP install_tree)

# consumers/FOLDER, configured with the options that follow. It builds a program `consumer`.
function(lacuna_add_consumer name folder)
  set(build "${CMAKE_CURRENT_BINARY_DIR}/consumers/${name}")
  set(compilers "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}")
  if(LACUNA_CUDA_ENABLED)
    list(APPEND compilers "-DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER}")
  endif()
  add_test(NAME consumer.${name}.build
           COMMAND "${CMAKE_CTEST_COMMAND}" --build-and-test "${CMAKE_CURRENT_SOURCE_DIR}/consumers/${folder}" "${build}"
                   --build-generator "${CMAKE_GENERATOR}" --build-options ${compilers} "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}" ${ARGN})
  add_test(NAME consumer.${name} COMMAND "${build}/consumer")
  set_tests_properties(consumer.${name}.build PROPERTIES LABELS consumer TIMEOUT 300 FIXTURES_SETUP ${name} FIXTURES_REQUIRED install_tree)
  set_tests_properties(consumer.${name} PROPERTIES LABELS consumer TIMEOUT 60 FIXTURES_REQUIRED ${name} SKIP_RETURN_CODE 77)
endfunction()

set(no_cuda -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
lacuna_add_consumer(package package "-Dlacuna_ROOT=${prefix}" ${no_cuda})
lacuna_add_consumer(subdirectory subdirectory "-DLACUNA_SOURCE=${PROJECT_SOURCE_DIR}" ${no_cuda})
lacuna_add_consumer(fetch_content subdirectory -DUSE_FETCH_CONTENT=ON "-DFETCHCONTENT_SOURCE_DIR_LACUNA=${PROJECT_SOURCE_DIR}" ${no_cuda})

# Asking for the device side where there is no CUDA is refused by name.
add_test(NAME consumer.package_without_cuda
         COMMAND "${CMAKE_COMMAND}" --fresh -S "${CMAKE_CURRENT_SOURCE_DIR}/consumers/package" -B "${CMAKE_CURRENT_BINARY_DIR}/consumers/refused"
                 -G "${CMAKE_GENERATOR}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" "-Dlacuna_ROOT=${prefix}" -DLACUNA_COMPONENTS=cuda ${no_cuda})
set_tests_properties(consumer.package_without_cuda PROPERTIES LABELS consumer FIXTURES_REQUIRED install_tree
                     PASS_REGULAR_EXPRESSION "CUDAToolkit")

if(LACUNA_CUDA_ENABLED)
  lacuna_add_consumer(package_cuda package_cuda "-Dlacuna_ROOT=${prefix}")
  lacuna_add_consumer(subdirectory_cuda package_cuda "-DLACUNA_SOURCE=${PROJECT_SOURCE_DIR}")
  lacuna_add_consumer(two_arch_lists two_arch_lists "-Dlacuna_ROOT=${prefix}")
endif()

# How long a user's smallest program takes to compile: 4 s (g++) and 8 s (nvcc, one architecture), or in proportion on a slower machine.
function(lacuna_add_compile_time name aim_seconds)
  add_test(NAME compile_time.${name}
           COMMAND "${CMAKE_COMMAND}" -D AIM_SECONDS=${aim_seconds} -D "YARDSTICK=${CMAKE_CURRENT_SOURCE_DIR}/consumers/yardstick.cpp"
                   -P "${CMAKE_CURRENT_SOURCE_DIR}/compile_time.cmake" -- ${ARGN}
                   -std=c++20 "-I${PROJECT_SOURCE_DIR}/include" -o "${CMAKE_CURRENT_BINARY_DIR}/compile_time_${name}.o")
  set_tests_properties(compile_time.${name} PROPERTIES LABELS tree TIMEOUT 300 RUN_SERIAL ON)
endfunction()
lacuna_add_compile_time(host 4 "${CMAKE_CXX_COMPILER}" -O2 -c "${CMAKE_CURRENT_SOURCE_DIR}/consumers/package/main.cpp")
if(LACUNA_CUDA_ENABLED)
  lacuna_add_compile_time(cuda 8 "${CMAKE_CUDA_COMPILER}" -O2 -arch=sm_80 -x cu -c "${CMAKE_CURRENT_SOURCE_DIR}/consumers/package_cuda/main.cu")
endif()
