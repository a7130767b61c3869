# Which interpreters the package installs on (pyproject.toml says), and on which of them it captures (_platform.py says).

# Ends the configuration, before anything is compiled, if the package does not install on this interpreter: `implementation`
# is sys.implementation.name, `version` is of the form 3.11.7.
# A message that starts with a space is not broken into lines.
function(framejit_check_python implementation version free_threaded)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../pyproject.toml line REGEX "^requires-python = ")
  if(NOT line MATCHES "\">=([0-9.]+),<3\\.([0-9]+)\"")
    message(FATAL_ERROR "requires-python of pyproject.toml is not of the form \">=3.X,<3.Y\"")
  endif()
  set(oldest ${CMAKE_MATCH_1})
  set(beyond ${CMAKE_MATCH_2})
  math(EXPR newest "${beyond} - 1")
  set(needs "framejit needs CPython ${oldest} to 3.${newest}")
  if(NOT implementation STREQUAL "cpython")
    message(FATAL_ERROR " ${needs}, this is ${implementation} ${version}")
  elseif(version VERSION_LESS oldest OR NOT version VERSION_LESS "3.${beyond}")
    message(FATAL_ERROR " ${needs}, this is ${version}")
  elseif(free_threaded)
    message(FATAL_ERROR " ${needs} with the GIL, this is a free-threaded build of ${version}")
  endif()
endfunction()

# Sets `result` to ON if VERSIONS of the package has major.minor, else to OFF.
function(framejit_captures result major minor)
  set(file ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../ext/framejit/_api/_platform.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} line REGEX "^VERSIONS = ")
  if(NOT line)
    message(FATAL_ERROR "no line of ${file} starts with VERSIONS")
  elseif(line MATCHES "\\(${major}, ${minor}\\)")
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()
