# version.hpp is what a program without CMake sees: it must say the same as project(VERSION).
file(STRINGS "${PROJECT_SOURCE_DIR}/include/lacuna/version.hpp" lines REGEX "#define LACUNA_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
string(JOIN "." header_version ${numbers})
if(NOT header_version VERSION_EQUAL PROJECT_VERSION)
  message(FATAL_ERROR "include/lacuna/version.hpp says ${header_version}, CMakeLists.txt says ${PROJECT_VERSION}")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/lacuna/version.hpp")
