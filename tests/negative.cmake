# negative/NAME.cpp (with CUDA also NAME.cu) must fail to compile, with messages that match each of its lines "// expect: REGEX".
lacuna_programs("${CMAKE_CURRENT_SOURCE_DIR}/negative" sources)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  set(command "${CMAKE_CXX_COMPILER}" -std=c++20 -fsyntax-only)
  if(source MATCHES "\\.cu$")
    set(command "${CMAKE_CUDA_COMPILER}" -std=c++20 -arch=sm_80 --cuda)
    string(APPEND name ".device")
  endif()
  add_test(NAME negative.${name}
           COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${source}" -P "${CMAKE_CURRENT_SOURCE_DIR}/expect_compile_error.cmake" --
                   ${command} "-I${PROJECT_SOURCE_DIR}/include" "${source}")
  set_tests_properties(negative.${name} PROPERTIES LABELS tree TIMEOUT 120)
endforeach()
