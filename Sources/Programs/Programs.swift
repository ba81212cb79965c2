import countdownctl
import countdownd

/// countdownd and countdownctl are one program, which does what its name says. So a package has the
/// Swift runtime and the shared modules once, and countdownctl is a link.
@main
struct Programs {
  static func main() {
    let name = CommandLine.arguments.first?.split(separator: "/").last
    if name == "countdownctl" { runCountdownctl() }
    runCountdownd()
  }
}
