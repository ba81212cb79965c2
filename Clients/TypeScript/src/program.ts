import { createRequire } from 'node:module';

/** Where the package of this platform, such as countdownd-linux-x64, has the program. */
export function packaged(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(`countdownd-${process.platform}-${process.arch}/bin/countdownd`);
  } catch {
    return undefined;
  }
}
