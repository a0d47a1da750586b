# SPDX-License-Identifier: Apache-2.0
# Run by cpack over what it is about to pack, to make it as Debian wants it: manual pages and changelogs
# compressed, the licence in the file `copyright` alone.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.[1-9]"
     "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/changelog")
if(NOT pages)
  message(FATAL_ERROR "nothing to compress below ${CPACK_TEMPORARY_DIRECTORY}")
endif()
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)

file(GLOB licences "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/LICENSE")
file(REMOVE ${licences})
