import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Client, CountdowndError, Duration } from './index.js';
import { packaged } from './program.js';

export interface DaemonOptions {
  /** The configuration, as YAML. */
  config?: string;
  /** The folder for its socket and state; if it is not given, one that ends with the daemon. */
  folder?: string;
  /** Whether time moves only with `advance` and the like; true if it is not given. */
  virtualTime?: boolean;
}

/** A private daemon; in tests on virtual time. It ends with this program, even if that is killed. */
export class Daemon {
  readonly client: Client;
  readonly path: string;

  /** @internal */
  constructor(
    readonly folder: string, private readonly isOwn: boolean,
    private readonly child: ReturnType<typeof spawn>,
  ) {
    this.path = `${folder}/socket`;
    this.client = new Client({ path: this.path, timeout: 60_000 });
  }

  /** Lets time pass, event by event. */
  async advance(duration: Duration): Promise<void> {
    await this.client.clock.advance(duration);
  }

  /** Restarts the daemon, which is away for that time; returns when the new one answers. */
  async restart(away: Duration = 0): Promise<void> {
    const before = statSync(this.path);
    await this.client.clock.restart(away);
    await eventually(() => {
      if (!existsSync(this.path)) return false;
      const after = statSync(this.path);
      return after.ino !== before.ino || after.ctimeMs !== before.ctimeMs;
    });
    await this.answers();
  }

  /** @internal */
  async answers(): Promise<void> {
    await eventually(async () => {
      if (this.child.exitCode !== null) throw new Error('countdownd did not start; its message is above');
      return this.client.ping().then(() => true, (error: unknown) => {
        if (error instanceof CountdowndError && error.code !== 'ERR') return false;
        throw error;
      });
    });
  }

  async close(): Promise<void> {
    await this.client.close();
    const ended = new Promise<void>((resolve) => this.child.once('exit', resolve));
    if (this.child.exitCode === null) {
      this.child.ref();
      this.child.kill();
      await ended;
    }
    if (this.isOwn) rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Starts a private daemon on virtual time. Close it after the test: `after(() => daemon.close())`. */
export async function startCountdownd(options: DaemonOptions = {}): Promise<Daemon> {
  // Paths of sockets are short.
  const folder = options.folder ?? mkdtempSync(`${tmpdir()}/countdownd-`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/countdownd.yaml`, options.config ?? '');
  const words = ['--socket', `${folder}/socket`, '--config', `${folder}/countdownd.yaml`, '--state-directory', `${folder}/state`, '--end-with-input'];
  if (options.virtualTime !== false) words.push('--virtual-time');
  const child = spawn(process.env.COUNTDOWND || packaged() || 'countdownd', words, { stdio: ['pipe', 'inherit', 'inherit'] });
  // It ends with this program, even if that is killed, and keeps nobody waiting.
  child.unref();
  child.stdin.unref();
  const daemon = new Daemon(folder, options.folder === undefined, child);
  await daemon.answers();
  return daemon;
}

/** Starts a private daemon for development, with its state in a folder. It ends with the program. */
export async function embedded(folder: string, options: { config?: string } = {}): Promise<Client> {
  const daemon = await startCountdownd({ ...options, folder, virtualTime: false });
  process.stderr.write(`countdownd: a private daemon in ${folder}, until this program ends\n`);
  return daemon.client;
}

/** Waits until a condition is true. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error('it did not happen in 60 s');
    await new Promise<void>((resolve) => { setTimeout(resolve, 2); });
  }
}
