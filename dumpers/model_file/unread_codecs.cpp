// SPDX-License-Identifier: Apache-2.0
// libarchive's reader of zip archives names these, for contents that are packed or encrypted in
// ways that LibTorch has none for. model_file.cpp refuses such entries before they are read, so
// that none is ever called, and a program with its libraries inside need not have these in it.
#include <cstdlib>

#define REPRO_CHECK_UNREAD(name)                       \
  extern "C" void name(); /* NOLINT(*-identifier-*) */ \
  void name() { std::abort(); }

REPRO_CHECK_UNREAD(BZ2_bzDecompress)
REPRO_CHECK_UNREAD(BZ2_bzDecompressEnd)
REPRO_CHECK_UNREAD(BZ2_bzDecompressInit)
REPRO_CHECK_UNREAD(lzma_alone_decoder)
REPRO_CHECK_UNREAD(lzma_code)
REPRO_CHECK_UNREAD(lzma_end)
REPRO_CHECK_UNREAD(lzma_stream_decoder)
REPRO_CHECK_UNREAD(nettle_aes128_encrypt)
REPRO_CHECK_UNREAD(nettle_aes128_set_encrypt_key)
REPRO_CHECK_UNREAD(nettle_aes192_encrypt)
REPRO_CHECK_UNREAD(nettle_aes192_set_encrypt_key)
REPRO_CHECK_UNREAD(nettle_aes256_encrypt)
REPRO_CHECK_UNREAD(nettle_aes256_set_encrypt_key)
REPRO_CHECK_UNREAD(nettle_hmac_sha1_digest)
REPRO_CHECK_UNREAD(nettle_hmac_sha1_set_key)
REPRO_CHECK_UNREAD(nettle_hmac_sha1_update)
REPRO_CHECK_UNREAD(nettle_pbkdf2_hmac_sha1)
