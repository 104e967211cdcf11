# cmake -D SOURCE=file -P expect_compile_error.cmake -- compiler arguments...
# Passes when the compiler refuses the file and its messages match every line "// expect: REGEX" of the file.
include("${CMAKE_CURRENT_LIST_DIR}/command_after_dashes.cmake")
file(STRINGS "${SOURCE}" expectations REGEX "^// expect: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE} has no line '// expect: REGEX'")
endif()

set(ENV{LC_ALL} C)
execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(code EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiled, but must be refused")
endif()
foreach(line IN LISTS expectations)
  string(REGEX REPLACE "^// expect: " "" expected "${line}")
  if(NOT text MATCHES "${expected}")
    message(FATAL_ERROR "${SOURCE} was refused, but no message matches '${expected}':\n${text}")
  endif()
endforeach()
