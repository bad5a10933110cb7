# What an installation consists of: library, header, program, pkg-config file, CMake package, bash completion.
# Every path inside these files is relative to where they lie, so `cmake --install --prefix` may put them anywhere.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vicinal)
install(TARGETS vicinal EXPORT vicinalTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/vicinal.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET vicinal_program)
    install(TARGETS vicinal_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES cli/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME vicinal)
endif()

file(RELATIVE_PATH PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" PREFIX_FROM_PC "${PREFIX_FROM_PC}")
configure_file(cmake/vicinal.pc.in vicinal.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vicinal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/vicinalConfig.cmake.in vicinalConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(vicinalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT vicinalTargets NAMESPACE vicinal:: DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vicinalConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/vicinalConfigVersion.cmake
    DESTINATION ${package_dir})
