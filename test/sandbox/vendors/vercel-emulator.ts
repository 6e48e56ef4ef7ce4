import { randomBytes } from "node:crypto";
import { execFileSync } from "node:child_process";
import { RUNNER_PORT } from "../../../src/sandbox/cloud/vendor.ts";
import type { EmulatedMachine, Machines } from "./machines.ts";
import { runOn, startVendor, type VendorCall, type VendorServer } from "./vendor-server.ts";

/**
 * The API of Vercel's sandboxes as its SDK 3.5.0 uses it: sandboxes by name, their sessions, commands, files, and the
 * edge of a machine's ports. Written from the schemas of that package. It proves our calls, not their service.
 */
export interface VercelEmulator extends VendorServer {
  readonly key: string;
  readonly env: Record<string, string>;
  /** Brings the requests of the SDK to the emulator. */
  readonly fetch: typeof globalThis.fetch;
}

export async function startVercel(): Promise<VercelEmulator> {
  const key = randomBytes(12).toString("hex");
  const vendor = await startVendor(
    (call, base) => serve(call, base, key),
    () => true,
  );
  return {
    ...vendor,
    key,
    env: { VERCEL_TOKEN: key, VERCEL_TEAM_ID: "team_1", VERCEL_PROJECT_ID: "prj_1" },
    fetch: (input, init) => fetch(String(input).replace("https://vercel.com/api", vendor.url), init),
  };
}

async function serve(call: VendorCall, base: string, key: string): Promise<void> {
  const { machines, url, method } = call;
  const refuse = (status: number, code: string): void =>
    call.answer(status, { error: { code, message: `${code}: ${url.pathname}` } });
  if (call.headers.authorization !== `Bearer ${key}`) return refuse(403, "forbidden");
  const [, area = "", id = "", ...action] = url.pathname.split("/").filter(Boolean);
  if (area !== "sandboxes") return refuse(404, "not_found");
  const given = (): Record<string, unknown> =>
    JSON.parse(call.body.toString() || "{}") as Record<string, unknown>;
  const whole = (machine: EmulatedMachine, resumed = false): object => ({
    sandbox: toSandbox(machine),
    session: toSession(machine),
    routes: [{ url: `${base}/edge/${machine.id}`, subdomain: machine.id, port: RUNNER_PORT }],
    resumed,
  });
  if (id === "" && method === "GET")
    return call.answer(200, {
      sandboxes: machines.all().map(toSandbox),
      pagination: { count: machines.all().length, next: null },
    });
  if (id === "") {
    const body = given();
    if (body["image"] === "missing") return refuse(404, "image_not_found");
    if (nameds(machines, String(body["name"]))) return refuse(422, "sandbox_exists");
    const machine = await machines.create((body["tags"] ?? {}) as Record<string, string>, body);
    return call.losesAnswer() ? undefined : call.answer(200, whole(machine));
  }
  if (id !== "sessions") {
    const machine = nameds(machines, decodeURIComponent(id));
    if (!machine) return refuse(404, "not_found");
    if (method === "DELETE") {
      await machines.remove(machine.id);
      return call.answer(200, { sandbox: toSandbox(machine) });
    }
    const wakes = url.searchParams.get("resume") === "true" && machine.state === "paused";
    if (wakes) machines.resume(machine);
    return call.answer(200, whole(machine, wakes));
  }
  const [session = "", ...what] = action;
  const machine = machines.get(session.replace(/^ses_/, ""));
  if (!machine) return refuse(404, "not_found");
  if (machine.state === "paused") return refuse(410, "sandbox_stopped");
  if (what[0] === "extend-timeout") return call.answer(200, { session: toSession(machine) });
  if (what.join("/") === "fs/write") {
    execFileSync("tar", ["-xzf", "-", "-C", String(call.headers["x-cwd"])], { input: call.body });
    return call.answer(200, {});
  }
  if (what[0] !== "cmd") return refuse(404, "not_found");
  const { command, args, wait } = given() as { command: string; args: string[]; wait: boolean };
  const told = { id: "cmd_1", name: command, args, cwd: machine.home, sessionId: session, startedAt: 0 };
  if (!wait) return refuse(400, "only_with_wait");
  call.response.writeHead(200, { "content-type": "application/x-ndjson" });
  const line = (value: object): boolean => call.response.write(`${JSON.stringify(value)}\n`);
  line({ command: { ...told, exitCode: null } });
  const { code, stdout, stderr } = await runOn(machines, machine, [command, ...args]);
  if (stdout) line({ stream: "stdout", data: stdout });
  if (stderr) line({ stream: "stderr", data: stderr });
  line({ command: { ...told, exitCode: code } });
  call.response.end();
}

function nameds(machines: Machines, name: string): EmulatedMachine | undefined {
  return machines.all().find(({ request }) => request["name"] === name);
}

function toSession({ id, home, state }: EmulatedMachine): object {
  const status = state === "running" ? "running" : "stopped";
  const times = { requestedAt: 1, createdAt: 1, updatedAt: 1 };
  return {
    id: `ses_${id}`,
    memory: 1,
    vcpus: 1,
    region: "iad1",
    timeout: 1_000,
    status,
    cwd: home,
    ...times,
  };
}

function toSandbox(machine: EmulatedMachine): object {
  const { id, request, state } = machine;
  const status = state === "running" ? "running" : "stopped";
  const times = { createdAt: 1, updatedAt: 1 };
  return { name: request["name"], persistent: true, currentSessionId: `ses_${id}`, status, ...times };
}
