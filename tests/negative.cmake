# negative/NAME.cpp must fail to compile, with messages that match each of its lines "// expect: REGEX". With CUDA also NAME.cu, which
# is compiled as strictly as the cuda preset does.
lacuna_programs("${CMAKE_CURRENT_SOURCE_DIR}/negative" sources)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  set(command "${CMAKE_CXX_COMPILER}" -std=c++20 -fsyntax-only)
  if(source MATCHES "\\.cu$")
    set(command "${CMAKE_CUDA_COMPILER}" -std=c++20 -gencode=arch=compute_80,code=sm_80 ${LACUNA_CUDA_WARNINGS} ${LACUNA_CUDA_WERROR}
                -c -o "${CMAKE_CURRENT_BINARY_DIR}/negative_${name}.o")
    string(APPEND name ".device")
  endif()
  add_test(NAME negative.${name}
           COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${source}" -P "${CMAKE_CURRENT_SOURCE_DIR}/expect_compile_error.cmake" --
                   ${command} "-I${PROJECT_SOURCE_DIR}/include" "${source}")
  set_tests_properties(negative.${name} PROPERTIES LABELS tree TIMEOUT 120)
endforeach()
