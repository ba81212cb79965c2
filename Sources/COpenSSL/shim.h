#pragma once
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stddef.h>

// OpenSSL is loaded only if connections are to be encrypted: most daemons do without.
// These are the functions in use, with the types of OpenSSL's headers.
#define COUNTDOWND_OPENSSL(f)                                                                    \
  f(TLS_client_method) f(SSL_CTX_new) f(SSL_CTX_free) f(SSL_CTX_ctrl) f(SSL_CTX_set_verify)      \
  f(SSL_CTX_load_verify_locations) f(SSL_CTX_set_default_verify_paths)                           \
  f(SSL_CTX_use_certificate_chain_file) f(SSL_CTX_use_PrivateKey_file)                           \
  f(SSL_CTX_check_private_key) f(SSL_new) f(SSL_free) f(SSL_ctrl) f(SSL_get0_param)              \
  f(SSL_set1_host) f(SSL_set_fd) f(SSL_set_connect_state) f(SSL_do_handshake) f(SSL_read)        \
  f(SSL_write) f(SSL_get_error) f(SSL_get_verify_result) f(X509_VERIFY_PARAM_set1_ip_asc)        \
  f(X509_verify_cert_error_string) f(ERR_clear_error) f(ERR_peek_error) f(ERR_get_error)         \
  f(ERR_reason_error_string) f(HMAC) f(EVP_sha256)

struct countdownd_openssl {
#define COUNTDOWND_MEMBER(name) __typeof__(name) *name;
  COUNTDOWND_OPENSSL(COUNTDOWND_MEMBER)
#undef COUNTDOWND_MEMBER
};

// Loads OpenSSL; NULL if it is not installed. dlsym(3) also searches libcrypto, its dependency.
static inline const struct countdownd_openssl *countdownd_openssl_load(void) {
  static struct countdownd_openssl functions;
  void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
#define COUNTDOWND_FIND(name)                                                      \
  functions.name = (__typeof__(functions.name))dlsym(library, #name);              \
  if (functions.name == NULL) return NULL;
  COUNTDOWND_OPENSSL(COUNTDOWND_FIND)
#undef COUNTDOWND_FIND
  return &functions;
}

// OpenSSL has only macros for these, which Swift cannot call.
static inline int countdownd_tls_set_minimum(
    const struct countdownd_openssl *functions, SSL_CTX *context) {
  return (int)functions->SSL_CTX_ctrl(
      context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
}

static inline void countdownd_tls_set_modes(
    const struct countdownd_openssl *functions, SSL_CTX *context) {
  functions->SSL_CTX_ctrl(
      context, SSL_CTRL_MODE,
      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
          SSL_MODE_RELEASE_BUFFERS,
      NULL);
}

static inline int countdownd_tls_set_name(
    const struct countdownd_openssl *functions, SSL *ssl, const char *name) {
  return (int)functions->SSL_ctrl(
      ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)name);
}
