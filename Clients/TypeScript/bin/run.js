import { spawn } from 'node:child_process';
import { packaged } from '../dist/program.js';

/** Runs the packaged program under one of its names, with the words, signals and status of this process. */
export function run(name) {
  const program = packaged();
  if (!program) {
    const platform = `${process.platform}-${process.arch}`;
    console.error(
      `${name}: there is no program for ${platform} here. The daemon runs on Linux; there, install ` +
      `the package countdownd-${platform} beside countdownd.`);
    process.exit(127);
  }
  const child = spawn(program, process.argv.slice(2), { argv0: name, stdio: 'inherit' });
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  child.once('error', (error) => {
    console.error(`${name}: ${error.message}`);
    process.exit(126);
  });
  child.once('exit', (status, signal) => {
    if (!signal) process.exit(status);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
