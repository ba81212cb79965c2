/// The version of everything in this package. It is written here and nowhere else: packages and
/// man pages ask the built programs for it.
///
/// Source: https://semver.org.
package enum ProductVersion {
  package static let current = "0.1.0"
}
