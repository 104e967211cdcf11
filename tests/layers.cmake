add_test(NAME layers COMMAND "${CMAKE_COMMAND}" -P "${PROJECT_SOURCE_DIR}/cmake/check_layers.cmake")
add_test(NAME layers.checker
         COMMAND "${CMAKE_COMMAND}" -D "CHECKER=${PROJECT_SOURCE_DIR}/cmake/check_layers.cmake"
                 -D "TREE=${CMAKE_CURRENT_BINARY_DIR}/layers_tree" -P "${CMAKE_CURRENT_SOURCE_DIR}/check_layers_test.cmake")
set_tests_properties(layers layers.checker PROPERTIES LABELS tree)
