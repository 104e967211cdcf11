include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lacuna")

# Two export sets: the second is read only when a consumer asks for COMPONENTS cuda.
install(TARGETS lacuna EXPORT lacunaTargets FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS lacuna_cuda EXPORT lacunaCudaTargets FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT lacunaTargets NAMESPACE lacuna:: DESTINATION "${config_dir}")
install(EXPORT lacunaCudaTargets NAMESPACE lacuna:: DESTINATION "${config_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/lacunaConfig.cmake.in" "${PROJECT_BINARY_DIR}/lacunaConfig.cmake"
                              INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lacunaConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/lacunaConfig.cmake" "${PROJECT_BINARY_DIR}/lacunaConfigVersion.cmake" DESTINATION "${config_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
