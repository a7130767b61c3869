# The headers named, files or folders, on the include path of a target; no other header of the project comes with them, so an
# include against the layers does not compile. They are links in a folder of the target's own.
function(framejit_headers target scope)
  set(root ${CMAKE_BINARY_DIR}/include/${target})
  foreach(header IN LISTS ARGN)
    get_filename_component(folder ${root}/${header} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${root}/${header} SYMBOLIC)
  endforeach()
  target_include_directories(${target} ${scope} ${root})
endfunction()
