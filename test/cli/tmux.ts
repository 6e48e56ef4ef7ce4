import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
let opened = 0;

/** The reason to skip tests that need tmux; undefined where it is installed. Under CI=true it throws. */
export function missingTmux(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter(Boolean);
  if (folders.some((folder) => existsSync(join(folder, "tmux")))) return undefined;
  const reason = "tmux is not on PATH; `npm test` installs it for the tests on Debian";
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true it has to be there`);
  return reason;
}

/** A program in a real terminal, whose screen can be read and whose keys can be pressed. */
export class Tmux {
  readonly #socket = `sluice-test-${process.pid}-${(opened += 1)}`;
  readonly #exit: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(argv: readonly string[], options: { env: NodeJS.ProcessEnv; cwd: string }) {
    this.#exit = join(options.cwd, `.exit-${opened}`);
    this.#env = { ...options.env, TERM: "xterm-256color", LANG: "C.UTF-8", SHELL: "/bin/sh" };
    // tmux loses some exit codes, so a shell writes them down. Ctrl-C ends the program, not the shell.
    const shell = ["sh", "-c", 'trap : INT; out=$1; shift; "$@"; echo $? > "$out"', "sh", this.#exit];
    const command = [...shell, ...argv].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
    this.#tmux(
      "set-option",
      "-g",
      "remain-on-exit",
      "on",
      ";",
      "set-option",
      "-g",
      "escape-time",
      "0",
      ";",
      "new-session",
      "-d",
      "-x",
      "100",
      "-y",
      "40",
      "-c",
      options.cwd,
      command,
    );
  }

  /** Presses keys: names of tmux such as Enter, C-c, M-Enter, or text. */
  async keys(...keys: string[]): Promise<void> {
    await run("tmux", ["-u", "-L", this.#socket, "send-keys", ...keys], { env: this.#env });
  }

  async type(text: string): Promise<void> {
    await run("tmux", ["-u", "-L", this.#socket, "send-keys", "-l", "--", text], { env: this.#env });
  }

  /** Pastes text as a terminal does it: in brackets, where the program has asked for them. */
  async paste(text: string): Promise<void> {
    this.#tmux("set-buffer", "--", text);
    await run("tmux", ["-u", "-L", this.#socket, "paste-buffer", "-p"], { env: this.#env });
  }

  /** The text on the screen, and above it. */
  async screen(options: { escapes?: boolean } = {}): Promise<string> {
    const args = ["capture-pane", "-p", "-S", "-500", ...(options.escapes ? ["-e"] : [])];
    const { stdout } = await run("tmux", ["-u", "-L", this.#socket, ...args], { env: this.#env });
    return stdout;
  }

  /** The text of the screen once it matches. */
  async until(pattern: RegExp, ms = 20_000): Promise<string> {
    const deadline = performance.now() + ms;
    for (;;) {
      const text = await this.screen();
      if (pattern.test(text)) return text;
      if (performance.now() > deadline) throw new Error(`the screen never showed ${pattern}:\n${text}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** The title that the program gave to the terminal. */
  async title(): Promise<string> {
    const args = ["-L", this.#socket, "display-message", "-p", "#{pane_title}"];
    return (await run("tmux", args, { env: this.#env })).stdout;
  }

  /** The exit code of the program, once it has ended. */
  async exitCode(ms = 20_000): Promise<number> {
    const deadline = performance.now() + ms;
    for (;;) {
      const code = existsSync(this.#exit) ? readFileSync(this.#exit, "utf8").trim() : "";
      if (code !== "") return Number(code);
      if (performance.now() > deadline) throw new Error(`it did not end:\n${await this.screen()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  close(): void {
    try {
      this.#tmux("kill-server");
    } catch {
      // It has ended already.
    }
  }

  #tmux(...args: string[]): void {
    execFileSync("tmux", ["-u", "-L", this.#socket, "-f", "/dev/null", ...args], {
      env: this.#env,
      stdio: "pipe",
    });
  }
}
