// swift-tools-version: 6.2
import PackageDescription

// A user of the client alone: see Tests/Integration/test_user_packages.py.
let package = Package(
  name: "user",
  dependencies: [.package(name: "countdownd", path: "../../..", traits: ["Client"])],
  targets: [
    .executableTarget(
      name: "user",
      dependencies: [.product(name: "CountdownClient", package: "countdownd")],
      swiftSettings: [
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("ExistentialAny"),
        .treatAllWarnings(as: .error),
      ])
  ],
  swiftLanguageModes: [.v6]
)
