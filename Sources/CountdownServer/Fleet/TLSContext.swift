import COpenSSL
import Countdowns
import Glibc

/// What all encrypted connections of a fleet have in common: whom they trust, and who they are.
final class TLSContext {
  fileprivate let handle: OpaquePointer

  init(_ settings: FleetSettings.TLS) throws(FleetError) {
    guard let handle = SSL_CTX_new(TLS_client_method()) else { throw Self.error("start TLS") }
    self.handle = handle
    guard countdownd_tls_set_minimum(handle) == 1 else { throw Self.error("demand TLS 1.2") }
    countdownd_tls_set_modes(handle)
    SSL_CTX_set_verify(handle, SSL_VERIFY_PEER, nil)
    if let file = settings.authorities {
      guard SSL_CTX_load_verify_locations(handle, file, nil) == 1 else {
        throw Self.error("read the authorities of \(file)")
      }
    } else {
      guard SSL_CTX_set_default_verify_paths(handle) == 1 else {
        throw Self.error("read the authorities of the system")
      }
    }
    if let file = settings.certificate {
      guard SSL_CTX_use_certificate_chain_file(handle, file) == 1 else {
        throw Self.error("read the certificate \(file)")
      }
    }
    if let file = settings.key {
      guard SSL_CTX_use_PrivateKey_file(handle, file, SSL_FILETYPE_PEM) == 1,
        SSL_CTX_check_private_key(handle) == 1
      else { throw Self.error("use the key \(file)") }
    }
  }

  deinit { SSL_CTX_free(handle) }

  private static func error(_ what: String) -> FleetError {
    FleetError("cannot \(what): \(TLSSession.reason)")
  }
}

/// One encrypted connection over a socket that does not block.
final class TLSSession {
  enum Outcome {
    case done(Int)
    /// It continues once the socket can be read.
    case needsInput
    /// It continues once the socket can be written.
    case needsOutput
    case closed(String)
  }

  private let handle: OpaquePointer
  private let context: TLSContext

  /// - Parameter host: the name or address that the certificate has to be for.
  init?(_ context: TLSContext, _ descriptor: Int32, host: String) {
    guard let handle = SSL_new(context.handle) else { return nil }
    self.handle = handle
    self.context = context
    let isAddress = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle), host) == 1
    let isNamed =
      isAddress
      || (SSL_set1_host(handle, host) == 1 && countdownd_tls_set_name(handle, host) == 1)
    guard isNamed, SSL_set_fd(handle, descriptor) == 1 else { return nil }
    SSL_set_connect_state(handle)
  }

  deinit { SSL_free(handle) }

  func handshake() -> Outcome { outcome { SSL_do_handshake(handle) } }

  func read(_ buffer: UnsafeMutableRawBufferPointer) -> Outcome {
    outcome { SSL_read(handle, buffer.baseAddress, Int32(clamping: buffer.count)) }
  }

  func write(_ buffer: UnsafeRawBufferPointer) -> Outcome {
    outcome { SSL_write(handle, buffer.baseAddress, Int32(clamping: buffer.count)) }
  }

  private func outcome(_ body: () -> Int32) -> Outcome {
    ERR_clear_error()
    errno = 0
    let result = body()
    if result > 0 { return .done(Int(result)) }
    let number = errno
    switch SSL_get_error(handle, result) {
    case SSL_ERROR_WANT_READ: return .needsInput
    case SSL_ERROR_WANT_WRITE: return .needsOutput
    case SSL_ERROR_ZERO_RETURN: return .closed("closed by the server")
    case SSL_ERROR_SYSCALL where ERR_peek_error() == 0:
      return .closed(number == 0 ? "closed by the server" : String(cString: strerror(number)))
    default:
      let verified = SSL_get_verify_result(handle)
      guard verified != X509_V_OK else { return .closed("TLS: \(Self.reason)") }
      let reason = String(cString: X509_verify_cert_error_string(verified))
      return .closed("TLS: the certificate is not accepted: \(reason)")
    }
  }

  /// Why the last call failed.
  fileprivate static var reason: String {
    let code = ERR_get_error()
    defer { ERR_clear_error() }
    return ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code) of OpenSSL"
  }
}

/// Why the servers of a fleet cannot be used, for a person.
package struct FleetError: Error, Equatable, CustomStringConvertible {
  package let description: String

  init(_ description: String) { self.description = description }
}
