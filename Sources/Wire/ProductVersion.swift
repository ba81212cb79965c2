import CCommit

/// The version of everything in this package. It is written here and nowhere else: packages and
/// man pages ask the built programs for it.
///
/// Source: https://semver.org.
package enum ProductVersion {
  package static let current = "0.1.0"

  /// The version with the commit that the program was built from, unless that is a release.
  package static var built: String {
    let commit = unsafe String(cString: countdownd_commit())
    return commit.isEmpty ? current : "\(current)+\(commit)"
  }
}
