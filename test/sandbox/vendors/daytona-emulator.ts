import { randomBytes } from "node:crypto";
import type { EmulatedMachine, Machines } from "./machines.ts";
import { runOn, startVendor, type VendorCall, type VendorServer } from "./vendor-server.ts";

/**
 * The API of Daytona as its SDK 0.216.0 uses it: sandboxes, the toolbox of a machine for files and commands, and the edge
 * of its ports. Written from the generated clients of that package. It proves our calls, not their service.
 */
export interface DaytonaEmulator extends VendorServer {
  readonly key: string;
  readonly env: Record<string, string>;
}

export async function startDaytona(): Promise<DaytonaEmulator> {
  const key = `dtn_${randomBytes(12).toString("hex")}`;
  const vendor = await startVendor(
    (call, base) => serve(call, base, key),
    (machine, headers) => headers["x-daytona-preview-token"] === previewOf(machine),
  );
  return { ...vendor, key, env: { DAYTONA_API_KEY: key, DAYTONA_API_URL: `${vendor.url}/api` } };
}

async function serve(call: VendorCall, base: string, key: string): Promise<void> {
  const { machines, url, method } = call;
  const refuse = (statusCode: number, message: string): void =>
    call.answer(statusCode, { statusCode, message, source: "DAYTONA_API", path: url.pathname });
  if (call.headers.authorization !== `Bearer ${key}`) return refuse(401, "Unauthorized");
  const [area, kind, name = "", ...action] = url.pathname.split("/").filter(Boolean);
  if (area === "toolbox") return serveToolbox(call, kind ?? "", [name, ...action].join("/"), refuse);
  if (kind !== "sandbox") return refuse(404, "no such route");
  const whole = (machine: EmulatedMachine): object => toSandbox(machine, `${base}/toolbox`);
  if (name === "" && method === "GET")
    return call.answer(200, { items: machines.all().map(whole), nextCursor: null });
  if (name === "") {
    const body = JSON.parse(call.body.toString()) as Record<string, unknown>;
    if (body["snapshot"] === "missing") return refuse(400, "Snapshot missing not found");
    if (named(machines, String(body["name"]))) return refuse(409, "already exists");
    const machine = await machines.create((body["labels"] ?? {}) as Record<string, string>, body);
    return call.losesAnswer() ? undefined : call.answer(200, whole(machine));
  }
  const machine = named(machines, name);
  if (!machine) return refuse(404, `Sandbox with ID or name ${name} not found`);
  if (method === "DELETE") await machines.remove(machine.id);
  if (action[0] === "start") machines.resume(machine);
  if (action[0] === "last-activity") return call.answer(201);
  if (action[0] === "ports")
    return call.answer(200, {
      url: `${base}/edge/${machine.id}`,
      token: previewOf(machine),
      sandboxId: machine.id,
    });
  return call.answer(200, whole(machine));
}

async function serveToolbox(
  call: VendorCall,
  id: string,
  action: string,
  refuse: (status: number, message: string) => void,
): Promise<void> {
  const { machines } = call;
  const machine = machines.get(id);
  if (machine?.state !== "running") return refuse(400, "sandbox is not running");
  if (action === "files/bulk-upload") {
    for (const { path, content } of filesOf(call)) machines.write(machine, path, content);
    return call.answer(200);
  }
  if (action !== "process/execute") return refuse(404, "no such route");
  const { command } = JSON.parse(call.body.toString()) as { command: string };
  // It divides a command into words, and is no shell.
  const { code, stdout, stderr } = await runOn(machines, machine, command.split(" "));
  return call.answer(200, { exitCode: code, result: `${stdout}${stderr}` });
}

/** The pairs of path and file in a form. */
function filesOf({ headers, body }: VendorCall): { path: string; content: Buffer }[] {
  const boundary = /boundary=(.+)$/.exec(headers["content-type"] ?? "")?.[1] ?? "";
  const parts: { name: string; content: Buffer }[] = [];
  const mark = Buffer.from(`--${boundary}`);
  for (let at = body.indexOf(mark); at >= 0;) {
    const next = body.indexOf(mark, at + mark.length);
    if (next < 0) break;
    const begin = body.indexOf("\r\n\r\n", at) + 4;
    const name = /name="([^"]+)"/.exec(body.subarray(at, begin).toString())?.[1] ?? "";
    parts.push({ name, content: body.subarray(begin, next - 2) });
    at = next;
  }
  return parts
    .filter(({ name }) => name.endsWith(".path"))
    .map(({ name, content }) => ({
      path: content.toString(),
      content: parts.find((part) => part.name === name.replace(/path$/, "file"))?.content ?? Buffer.alloc(0),
    }));
}

/** Another one after each start of the machine. */
function previewOf({ id, starts }: EmulatedMachine): string {
  return `preview-${id}-${starts}`;
}

function named(machines: Machines, name: string): EmulatedMachine | undefined {
  return machines.get(name) ?? machines.all().find(({ request }) => request["name"] === name);
}

function toSandbox({ id, request, state, metadata }: EmulatedMachine, toolboxProxyUrl: string): object {
  const told = {
    organizationId: "org",
    user: "daytona",
    env: {},
    labels: metadata,
    public: false,
    target: "us",
  };
  const sizes = { cpu: 1, gpu: 0, memory: 1, disk: 1 };
  const name = request["name"];
  return { id, name, ...told, ...sizes, state: state === "running" ? "started" : "stopped", toolboxProxyUrl };
}
