# cmake -D LIMIT_SECONDS=n -P compile_time.cmake -- compiler arguments...
# Prints how long a compilation took; fails when it exceeds the limit. Processor time, since other work may share the machine.
include("${CMAKE_CURRENT_LIST_DIR}/command_after_dashes.cmake")
find_program(BASH bash REQUIRED)
execute_process(COMMAND "${BASH}" -c "TIMEFORMAT='seconds %U'; time \"$@\"" bash ${command} ERROR_VARIABLE text RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT text MATCHES "seconds ([0-9]+)[.,]([0-9]+)")
  message(FATAL_ERROR "did not compile:\n${text}")
endif()
message(STATUS "compiled in ${CMAKE_MATCH_1}.${CMAKE_MATCH_2} s, limit ${LIMIT_SECONDS} s")
if(CMAKE_MATCH_1 GREATER_EQUAL LIMIT_SECONDS)
  message(FATAL_ERROR "the smallest program takes too long to compile")
endif()
