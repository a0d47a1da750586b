# SPDX-License-Identifier: Apache-2.0
# Lays out what probe and recorder are built of on the user's machine (see
# dumpers/python/repro_check_hooks/kit.py): `cmake -DINPUTS=FILE -P` this file, where FILE sets kit, root,
# sources, archives, trial, map, headers, strip, objdump and version. `id` is written last, and tells
# one kit from any other.
include("${INPUTS}")
file(REMOVE_RECURSE "${kit}")
set(contents "")
foreach(file IN LISTS sources)
  cmake_path(GET file PARENT_PATH folder)
  file(COPY "${root}/${file}" DESTINATION "${kit}/${folder}")
  file(SHA256 "${root}/${file}" digest)
  string(APPEND contents "${file} ${digest}\n")
endforeach()
file(COPY ${headers} DESTINATION "${kit}" FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

# What of other libraries a recorder needs is what the trial was linked with: archives go with the
# kit, shared ones are on this system as they are for the tool.
set(of_every_compiler "^lib(c|c_nonshared|m|gcc|gcc_s|gcc_eh|stdc\\+\\+|gomp|pthread|dl|rt)[.]|^ld-linux")
file(STRINGS "${map}" members REGEX "^/[^ ]+[.]a\\(")
list(TRANSFORM members REPLACE "[(].*" "")
list(REMOVE_DUPLICATES members)
execute_process(COMMAND "${objdump}" -p "${trial}" OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "NEEDED +[^\n]+" needed "${headers}")
list(TRANSFORM needed REPLACE "NEEDED +" "")
list(FILTER needed EXCLUDE REGEX "${of_every_compiler}")
list(TRANSFORM needed PREPEND "-l:")
string(JOIN "\n" shared ${needed})
string(APPEND contents "${shared}\n")

foreach(file IN LISTS archives members)
  cmake_path(GET file FILENAME name)
  if(name MATCHES "${of_every_compiler}")
    continue()
  endif()
  # Some are links to a name with a version.
  configure_file("${file}" "${kit}/lib/${name}" COPYONLY)
  if(strip)
    execute_process(COMMAND "${strip}" --strip-debug "${kit}/lib/${name}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
  file(SHA256 "${kit}/lib/${name}" digest)
  string(APPEND contents "${name} ${digest}\n")
endforeach()
file(WRITE "${kit}/shared" "${shared}\n")
string(SHA256 digest "${contents}")
string(SUBSTRING "${digest}" 0 12 digest)
file(WRITE "${kit}/id" "${version}-${digest}\n")
