import { execFileSync } from "node:child_process";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { createBwrapProvider } from "../../src/sandbox/index.ts";
import { script } from "../support/engine.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** The user of a server under attack. */
export interface ServerUser {
  readonly name: "root" | "an ordinary user";
  /** undefined for the user who runs the tests. */
  readonly ids: { readonly uid: number; readonly gid: number } | undefined;
}

/** A user id that no distribution uses. */
const ORDINARY = { uid: 54_321, gid: 54_321 };

/** Root and an ordinary user where the tests run as root; otherwise the user who runs the tests. */
export const SERVER_USERS: readonly ServerUser[] =
  process.geteuid?.() === 0
    ? [
        { name: "root", ids: undefined },
        { name: "an ordinary user", ids: ORDINARY },
      ]
    : [{ name: "an ordinary user", ids: undefined }];

const bwrap = await createBwrapProvider({ root: join(tmpdir(), "sluice-probe") }).detect();
if (!bwrap.available && process.env["CI"] === "true") throw new Error(`no bwrap: ${bwrap.reason}`);

/** The same attacks against a server of each user; a skip says why there is no bwrap here, under CI=true that is a failure. */
export function describeFortress(name: string, body: (user: ServerUser) => void): void {
  if (!bwrap.available) return void describe.skip(`${name} (skipped: ${bwrap.reason})`, () => {});
  describe.each(SERVER_USERS)(`${name}, under $name`, body);
}

const servers: TestServer[] = [];
const folders: string[] = [];

/** A real `sluice serve` that runs as this user; gone when the test is over. */
export async function serveAs(
  user: ServerUser,
  options: Omit<NonNullable<Parameters<typeof startServer>[0]>, "user"> = {},
): Promise<TestServer> {
  const server = await startServer({ ...options, user: user.ids });
  servers.push(server);
  return server;
}

/** A folder of the server's user, outside of its data; gone when the test is over. */
export async function makeFolder(user: ServerUser): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-fortress-"));
  folders.push(folder);
  if (user.ids !== undefined) await chown(folder, user.ids.uid, user.ids.gid);
  return folder;
}

/** Runs a shell command inside, as a client may, and returns its events' result. */
export async function runInside(
  server: TestServer,
  session: string,
  command: string,
): Promise<{ exitCode: number | undefined; stdout: string; stderr: string }> {
  const { commandId, after } = await server.client.runCommand(session, { command });
  const output = { stdout: "", stderr: "" };
  for await (const { type, data } of server.client.subscribe(session, { after, extensions: true })) {
    if (type === "command.output" && data.command_id === commandId) output[data.stream] += data.text;
    if (type === "command.ended" && data.command_id === commandId) {
      return { exitCode: data.exit_code, ...output };
    }
  }
  throw new Error("the stream ended before the command");
}

/** One whole turn of the scripted agent; answers the events of the session so far. */
export async function runSteps(
  server: TestServer,
  session: string,
  ...steps: unknown[]
): Promise<SluiceEvent[]> {
  const { turnId } = await server.client.sendMessage(session, script(...steps));
  const events: SluiceEvent[] = [];
  for await (const event of server.client.subscribe(session, { extensions: true })) {
    events.push(event);
    if (event.type === "turn.ended" && event.data.turn_id === turnId) return events;
  }
  throw new Error("the stream ended before the turn");
}

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

/** Gives a folder and everything in it to the server's user. */
export function give(folder: string, { ids }: ServerUser): void {
  if (ids === undefined) return;
  execFileSync("chown", ["-Rh", `${ids.uid}:${ids.gid}`, folder]);
}
