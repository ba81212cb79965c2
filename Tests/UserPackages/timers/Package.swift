// swift-tools-version: 6.2
import PackageDescription

// A user of the timers alone: see Tests/Integration/test_user_packages.py.
let package = Package(
  name: "user",
  dependencies: [.package(name: "countdownd", path: "../../..", traits: [])],
  targets: [
    .executableTarget(
      name: "user",
      dependencies: [
        .product(name: "DispatchTimers", package: "countdownd"),
        .product(name: "DispatchTimersTesting", package: "countdownd"),
      ],
      swiftSettings: [
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("ExistentialAny"),
        .treatAllWarnings(as: .error),
      ])
  ],
  swiftLanguageModes: [.v6]
)
