import COpenSSL
import Countdowns
import Glibc

/// OpenSSL, loaded on first use; nil if it is not installed.
nonisolated(unsafe) private let loaded = unsafe countdownd_openssl_load()
private var openSSL: UnsafePointer<countdownd_openssl> { unsafe loaded! }

/// The TLS configuration that all encrypted connections of a fleet share.
@safe final class TLSContext {
  fileprivate let handle: OpaquePointer

  init(_ settings: FleetSettings.TLS) throws(FleetError) {
    guard unsafe loaded != nil else {
      throw FleetError("fleet.tls needs OpenSSL 3; install libssl.so.3 (Debian: libssl3)")
    }
    guard let handle = unsafe openSSL.pointee.SSL_CTX_new(openSSL.pointee.TLS_client_method())
    else {
      throw Self.error("start TLS")
    }
    unsafe self.handle = handle
    guard unsafe countdownd_tls_set_minimum(openSSL, handle) == 1 else {
      throw Self.error("demand TLS 1.2")
    }
    unsafe countdownd_tls_set_modes(openSSL, handle)
    unsafe openSSL.pointee.SSL_CTX_set_verify(handle, SSL_VERIFY_PEER, nil)
    if let file = settings.authorities {
      guard unsafe openSSL.pointee.SSL_CTX_load_verify_locations(handle, file, nil) == 1 else {
        throw Self.error("read the authorities of \(file)")
      }
    } else {
      guard unsafe openSSL.pointee.SSL_CTX_set_default_verify_paths(handle) == 1 else {
        throw Self.error("read the authorities of the system")
      }
    }
    if let file = settings.certificate {
      guard unsafe openSSL.pointee.SSL_CTX_use_certificate_chain_file(handle, file) == 1 else {
        throw Self.error("read the certificate \(file)")
      }
    }
    if let file = settings.key {
      guard unsafe openSSL.pointee.SSL_CTX_use_PrivateKey_file(handle, file, SSL_FILETYPE_PEM) == 1,
        unsafe openSSL.pointee.SSL_CTX_check_private_key(handle) == 1
      else { throw Self.error("use the key \(file)") }
    }
  }

  deinit { unsafe openSSL.pointee.SSL_CTX_free(handle) }

  private static func error(_ what: String) -> FleetError {
    FleetError("cannot \(what): \(TLSSession.reason)")
  }
}

/// One encrypted connection over a non-blocking socket.
@safe final class TLSSession {
  enum Outcome {
    case done(Int)
    /// The call can be repeated once the socket can be read.
    case needsInput
    /// The call can be repeated once the socket can be written.
    case needsOutput
    case closed(String)
  }

  private let handle: OpaquePointer
  private let context: TLSContext

  /// - Parameter host: the name or address that the certificate has to match.
  init?(_ context: TLSContext, _ descriptor: Int32, host: String) {
    guard let handle = unsafe openSSL.pointee.SSL_new(context.handle) else { return nil }
    unsafe self.handle = handle
    self.context = context
    let isAddress =
      unsafe openSSL.pointee.X509_VERIFY_PARAM_set1_ip_asc(
        openSSL.pointee.SSL_get0_param(handle), host)
      == 1
    let isNamed =
      unsafe isAddress
      || (openSSL.pointee.SSL_set1_host(handle, host) == 1
        && countdownd_tls_set_name(openSSL, handle, host) == 1)
    guard isNamed, unsafe openSSL.pointee.SSL_set_fd(handle, descriptor) == 1 else { return nil }
    unsafe openSSL.pointee.SSL_set_connect_state(handle)
  }

  deinit { unsafe openSSL.pointee.SSL_free(handle) }

  func handshake() -> Outcome { outcome { unsafe openSSL.pointee.SSL_do_handshake(handle) } }

  func read(_ buffer: UnsafeMutableRawBufferPointer) -> Outcome {
    outcome {
      unsafe openSSL.pointee.SSL_read(handle, buffer.baseAddress, Int32(clamping: buffer.count))
    }
  }

  func write(_ buffer: UnsafeRawBufferPointer) -> Outcome {
    outcome {
      unsafe openSSL.pointee.SSL_write(handle, buffer.baseAddress, Int32(clamping: buffer.count))
    }
  }

  private func outcome(_ body: () -> Int32) -> Outcome {
    unsafe openSSL.pointee.ERR_clear_error()
    errno = 0
    let result = body()
    if result > 0 { return .done(Int(result)) }
    let number = errno
    switch unsafe openSSL.pointee.SSL_get_error(handle, result) {
    case SSL_ERROR_WANT_READ: return .needsInput
    case SSL_ERROR_WANT_WRITE: return .needsOutput
    case SSL_ERROR_ZERO_RETURN: return .closed("closed by the server")
    case SSL_ERROR_SYSCALL where unsafe openSSL.pointee.ERR_peek_error() == 0:
      return unsafe .closed(
        number == 0 ? "closed by the server" : String(cString: strerror(number)))
    default:
      let verified = unsafe openSSL.pointee.SSL_get_verify_result(handle)
      guard verified != X509_V_OK else { return .closed("TLS: \(Self.reason)") }
      let reason =
        unsafe openSSL.pointee.X509_verify_cert_error_string(verified)
        .map { unsafe String(cString: $0) } ?? "error \(verified)"
      return .closed("TLS: the certificate is not accepted: \(reason)")
    }
  }

  /// Why the last call failed.
  fileprivate static var reason: String {
    let code = unsafe openSSL.pointee.ERR_get_error()
    defer { unsafe openSSL.pointee.ERR_clear_error() }
    return unsafe openSSL.pointee.ERR_reason_error_string(code).map { unsafe String(cString: $0) }
      ?? "error \(code) of OpenSSL"
  }
}

/// Why the servers of a fleet cannot be used, as human-readable text.
package struct FleetError: Error, Equatable, CustomStringConvertible {
  package let description: String

  init(_ description: String) { self.description = description }
}

/// HMAC-SHA256, of which a hash has the first 16 bytes, as hexadecimal digits.
package struct KeyedHash {
  private let secret: [UInt8]

  /// Fails if OpenSSL is not installed.
  package init?(_ secret: [UInt8]) {
    guard unsafe loaded != nil else { return nil }
    self.secret = secret
  }

  package func callAsFunction(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 32
    _ = unsafe openSSL.pointee.HMAC(
      openSSL.pointee.EVP_sha256(), secret, Int32(secret.count), bytes, bytes.count, &digest, &count
    )
    let digits = Array("0123456789abcdef".utf8)
    return digest.prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  }
}
