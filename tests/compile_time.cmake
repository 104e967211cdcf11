# cmake -D AIM_SECONDS=n -D YARDSTICK=file -P compile_time.cmake -- compiler arguments... source
# Prints how long a compilation took; fails when it exceeds the aim and also twice what the yardstick takes on this machine, so that a slow
# or busy machine does not fail it. Processor time, since other work may share the machine.
include("${CMAKE_CURRENT_LIST_DIR}/command_after_dashes.cmake")
find_program(BASH bash REQUIRED)

function(seconds_of result)
  execute_process(COMMAND "${BASH}" -c "TIMEFORMAT='seconds %U'; time \"$@\"" bash ${ARGN} ERROR_VARIABLE text RESULT_VARIABLE code)
  if(NOT code EQUAL 0 OR NOT text MATCHES "seconds ([0-9]+)[.,]([0-9]+)")
    message(FATAL_ERROR "did not compile:\n${text}")
  endif()
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  set(${result}_text "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}" PARENT_SCOPE)
endfunction()

seconds_of(own ${command})
set(yardstick ${command})
list(TRANSFORM yardstick REPLACE "^.*/main\\.c(pp|u)$" "${YARDSTICK}")
seconds_of(measure ${yardstick})
math(EXPR limit "2 * ${measure}")
message(STATUS "compiled in ${own_text} s; the aim is ${AIM_SECONDS} s, the yardstick takes ${measure_text} s")
if(own GREATER_EQUAL AIM_SECONDS AND own GREATER_EQUAL limit)
  message(FATAL_ERROR "the smallest program takes too long to compile")
endif()
