#pragma once
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// These are macros, which Swift cannot call.
static inline int countdownd_tls_set_minimum(SSL_CTX *context) {
  return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

static inline void countdownd_tls_set_modes(SSL_CTX *context) {
  SSL_CTX_set_mode(
      context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                   SSL_MODE_RELEASE_BUFFERS);
}

static inline int countdownd_tls_set_name(SSL *ssl, const char *name) {
  return (int)SSL_set_tlsext_host_name(ssl, name);
}
