# SPDX-License-Identifier: Apache-2.0
# Builds the files of html/ into the tool, each with the digest that lets a browser run it.

# Bytes in hexadecimal to base64, which CMake does not know.
function(html_base64 hex into)
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  set(out "")
  string(LENGTH "${hex}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${hex}00000" ${at} 6 group)
    math(EXPR used "(${length} - ${at}) / 2")
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 character)
      if((shift EQUAL 6 AND used LESS 2) OR (shift EQUAL 0 AND used LESS 3))
        set(character "=")
      endif()
      string(APPEND out "${character}")
    endforeach()
    math(EXPR at "${at} + 6")
  endwhile()
  set(${into} "${out}" PARENT_SCOPE)
endfunction()

# html_read(<variable> <file>): the text of a file of html/; a change of it configures again.
function(html_read into name)
  set(file "${CMAKE_CURRENT_SOURCE_DIR}/html/${name}")
  file(READ "${file}" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  set(${into} "${text}" PARENT_SCOPE)
endfunction()

# html_assets(<variable> <file> ...): initialisers of HtmlAsset. Our own files lose their comment
# lines and indentation, which no string of theirs may hold; others stay as they are, and a
# <name>.LICENSE beside <name>.iife.min.js goes in front of it.
function(html_assets into)
  set(entries "")
  foreach(name IN LISTS ARGN)
    html_read(text "${name}")
    if(name MATCHES "^vendor/(.*)\\.iife\\.min\\.js$")
      html_read(license "vendor/${CMAKE_MATCH_1}.LICENSE")
      string(PREPEND text "/*\n${license}*/\n")
    elseif(NOT name MATCHES "^vendor/")
      string(REGEX REPLACE "\n +" "\n" text "${text}")
      string(REGEX REPLACE "\n//[^\n]*" "" text "${text}")
    endif()
    string(SHA256 hex "${text}")
    html_base64("${hex}" digest)
    string(APPEND entries "    HtmlAsset{R\"asset(${text})asset\", \"${digest}\"},\n")
  endforeach()
  set(${into} "${entries}" PARENT_SCOPE)
endfunction()

html_assets(HTML_STYLES vendor/uPlot.min.css theme.css page.css)
html_assets(
  HTML_SCRIPTS
  vendor/uPlot.iife.min.js
  text.js
  data.js
  query.js
  plot.js
  charts.js
  timeline.js
  steps.js
  tree.js
  table.js
  detail.js
  ledger.js
  app.js)
html_assets(HTML_RANKS ranks.js)
html_read(HTML_FRAME frame.html)
configure_file(html/html_assets.cpp.in "${CMAKE_CURRENT_BINARY_DIR}/html_assets.cpp" @ONLY)
