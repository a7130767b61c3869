# The Python package in the build tree: links to the sources beside the compiled _core, so that the build directory alone on
# PYTHONPATH gives a working framejit.
function(framejit_link_package source destination)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${source} ${source}/*.py ${source}/*.pyi ${source}/py.typed)
  foreach(file IN LISTS files)
    get_filename_component(folder ${destination}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${source}/${file} ${destination}/${file} SYMBOLIC)
  endforeach()
  # Links to files that are gone would be imported as stale names.
  file(GLOB_RECURSE links RELATIVE ${destination} ${destination}/*.py ${destination}/*.pyi)
  foreach(link IN LISTS links)
    if(NOT EXISTS ${source}/${link})
      file(REMOVE ${destination}/${link})
    endif()
  endforeach()
endfunction()
