# Debian's libasmjit.a is position independent for executables only: one reference to stderr, in its debug output, cannot be
# linked into a shared object. Where that is so, a hidden `stderr` of our own satisfies it (asmjit_debian.c).
function(framejit_link_asmjit target)
  if(EXISTS ${PROJECT_SOURCE_DIR}/third_party)
    return()  # built with this project, as position independent code
  endif()
  if(NOT DEFINED FRAMEJIT_ASMJIT_PIC)
    set(probe ${CMAKE_BINARY_DIR}/asmjit_pic)
    file(WRITE ${probe}/CMakeLists.txt
      "cmake_minimum_required(VERSION 3.25)\nproject(probe LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 17)\n"
      "find_package(asmjit CONFIG REQUIRED)\nadd_library(probe MODULE probe.cpp)\n"
      "target_link_libraries(probe PRIVATE asmjit::asmjit)\n")
    file(WRITE ${probe}/probe.cpp
      "#include <asmjit/asmjit.h>\nextern \"C\" void probe() { asmjit::DebugUtils::debugOutput(\"\"); }\n")
    try_compile(FRAMEJIT_ASMJIT_PIC PROJECT probe SOURCE_DIR ${probe}
                CMAKE_FLAGS -DCMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH} -DCMAKE_BUILD_TYPE=Release)
  endif()
  if(NOT FRAMEJIT_ASMJIT_PIC)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/asmjit_debian.c)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()
