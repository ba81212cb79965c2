import countdownctl
import countdownd

/// Runs countdownd or countdownctl, depending on the name it is called by. So a package contains
/// the Swift runtime and the shared modules once, and countdownctl is a link.
@main
struct Programs {
  static func main() {
    let name = CommandLine.arguments.first?.split(separator: "/").last
    if name == "countdownctl" { runCountdownctl() }
    runCountdownd()
  }
}
