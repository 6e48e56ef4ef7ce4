import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { missingTmux, Tmux } from "./tmux.ts";
import { script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const reason = missingTmux();
/** The prompt, empty, in the last line. */
const READY = /^›\s*$/m;
let bench: Workbench;
let server: TestServer;
let terminal: Tmux;

function open(argv: readonly string[]): void {
  terminal = new Tmux(argv, { env: bench.env(), cwd: bench.work });
}

async function say(text: string): Promise<void> {
  await terminal.type(text);
  await terminal.keys("Enter");
}

describe.skipIf(reason !== undefined)(`keys of a chat${reason === undefined ? "" : ` (${reason})`}`, () => {
  beforeAll(async () => {
    bench = new Workbench();
    server = await startServer({ data: bench.data });
  });
  afterEach(() => terminal.close());
  afterAll(async () => {
    await server.close();
    await bench.close();
  });

  it("Ctrl-C at an empty prompt says how to leave, and the prompt stays", async () => {
    open([BIN, "chat", "--agent", "scripted"]);
    await terminal.until(READY);
    await terminal.keys("C-c");
    await terminal.until(/Ctrl-D leaves\.\n›\s*$/m);
    await say(script({ say: "still here" }));
    await terminal.until(/still here\s+✓ done.*\s+›/);
  });

  it("Ctrl-C right after Enter interrupts the turn of that message", async () => {
    await server.client.sessions.create("early", { agent: "scripted" });
    open([BIN, "chat", "early"]);
    await terminal.until(READY);
    await terminal.type(script({ sleep: 60_000 }));
    await terminal.keys("Enter", "C-c");
    await terminal.until(/■ interrupted.*\s+›/);
    await say(script({ say: "the next one" }));
    await terminal.until(/the next one\s+✓ done.*\s+›/);
  });

  it("Ctrl-Z suspends it, and fg brings the prompt back with its text", async () => {
    open(["bash", "--norc", "-i"]);
    await say(`PS1='shell> '; ${BIN} chat --agent scripted`);
    await terminal.until(READY);
    await terminal.type(script({ say: "half" }).slice(0, -3));
    await terminal.keys("C-z");
    await terminal.until(/Stopped[\s\S]*shell>\s*$/);
    await say("fg");
    await terminal.until(/fg\n.*chat.*\n› #script \[\{"say":"half$/m);
    await say('"}]');
    await terminal.until(/half\s+✓ done.*\s+›/);
  });

  it("Ctrl-Z without a shell that could continue it does nothing", async () => {
    open([BIN, "chat", "--agent", "scripted"]);
    await terminal.until(READY);
    await terminal.keys("C-z");
    await terminal.type("discarded");
    await terminal.until(/› discarded/);
    await terminal.keys("C-c");
    await terminal.until(/› discarded\n›\s*$/m);
    await say(script({ say: "not stopped" }));
    await terminal.until(/not stopped\s+✓ done.*\s+›/);
  });

  it("Ctrl-Z suspends a question of `send` too, and fg asks it again", async () => {
    await server.client.sessions.create("asked", { agent: "scripted" });
    open(["bash", "--norc", "-i"]);
    await say(`PS1='shell> '; ${BIN} send asked '${script({ ask: { shell: "echo hi" } }, { say: "over" })}'`);
    await terminal.until(/allow\? \[y\]es/);
    await terminal.keys("C-z");
    await terminal.until(/Stopped[\s\S]*shell>\s*$/);
    await say("fg");
    await terminal.until(/fg\n[\s\S]*allow\? \[y\]es/);
    await say("y");
    await terminal.until(/✓ approved[\s\S]*over[\s\S]*✓ done/);
  });
});
