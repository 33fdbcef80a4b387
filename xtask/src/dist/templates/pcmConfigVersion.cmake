# Before 1.0 a program asks for the version it was made with, or an older one of the same minor number.
set(PACKAGE_VERSION @VERSION@)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _pcm_minor "${PACKAGE_VERSION}")
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
   AND "${PACKAGE_FIND_VERSION_MAJOR}.${PACKAGE_FIND_VERSION_MINOR}" STREQUAL _pcm_minor)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
unset(_pcm_minor)
