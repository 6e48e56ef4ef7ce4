import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { runCli } from "./cli.ts";
import { LED_AGENTS } from "./led-table.ts";

/**
 * A hostile program: it looks for the key in every variable, file, and in the memory of every process that it may read.
 * The key is written backwards, so that the program does not find itself.
 */
const toSearch = (backwards: string, hosts: readonly (readonly [string, number])[]) => `python3 - <<'PY'
import json, os
want = ${JSON.stringify(backwards)}[::-1].encode()
token = "_sses"[::-1].encode()
found, control = [], []
def look(name, data):
    if want in data: found.append(name)
    if token in data: control.append(name.split("/")[-1])
look("env", repr(os.environ).encode())
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for part in ("environ", "cmdline"):
        try: look(f"/proc/{pid}/{part}", open(f"/proc/{pid}/{part}", "rb").read())
        except OSError: pass
    if int(pid) == os.getpid(): continue
    try:
        maps, mem = open(f"/proc/{pid}/maps"), open(f"/proc/{pid}/mem", "rb", 0)
    except OSError: continue
    for line in maps:
        span, mode = line.split()[:2]
        if not mode.startswith("r"): continue
        start, end = (int(x, 16) for x in span.split("-"))
        if end - start > 1 << 28: continue
        try:
            mem.seek(start); look(f"/proc/{pid}/mem", mem.read(end - start))
        except (OSError, ValueError, OverflowError): pass
for top in ("/home", "/tmp", "/run", "/etc", "/mnt", "/var"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 26: look(path, open(path, "rb").read())
            except OSError: pass
import socket, urllib.parse
reached = []
def tries(host, port):
    yield lambda: socket.create_connection((host, port), 3)
    proxy = urllib.parse.urlsplit(os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or "")
    if not proxy.hostname: return
    def through():
        way = socket.create_connection((proxy.hostname, proxy.port), 3)
        way.settimeout(3)
        way.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
        if b" 200 " not in way.recv(100): raise OSError("refused")
    yield through
for host, port in json.loads(${JSON.stringify(JSON.stringify(hosts))}):
    for attempt in tries(host, port):
        try: attempt(); reached.append(host)
        except OSError: pass
print("REACHED", reached)
print("SEARCHED", sorted(set(found)), "CONTROL", "mem" in control)
PY`;

const PROVIDERS = [
  "api.anthropic.com",
  "api.openai.com",
  "generativelanguage.googleapis.com",
  "api.x.ai",
].map((host) => [host, 443] as const);

let model: ScriptedModel;
let data: string;
beforeAll(async () => {
  model = await createScriptedModel();
  data = mkdtempSync(join(tmpdir(), "gateway-agents-"));
});
afterAll(async () => {
  await model.close();
  rmSync(data, { recursive: true, force: true });
});

describe.each(LED_AGENTS)(
  "$agent with a key of the server",
  ({ agent, variable, address, path, model: name, wire: expected, reason }) => {
    it.skipIf(reason !== undefined)(
      "1, 2, 3: works while nothing in its sandbox has the key or reaches a provider, and every request is measured",
      { timeout: 240_000 },
      async () => {
        const key = `sk-canary-${randomBytes(16).toString("hex")}`;
        const search = toSearch([...key].toReversed().join(""), [
          ...PROVIDERS,
          ["127.0.0.1", Number(new URL(model.url).port)],
        ]);
        model.reset();
        const script = [{ shell: search }, { say: "all done" }];
        const { code, events, stderr } = await runCli(
          [
            "run",
            "--agent",
            agent,
            "--sandbox",
            "bwrap",
            "--as",
            "universal",
            "--permission-mode",
            "bypass",
          ].concat(name === undefined ? [] : ["--model", name], `#script ${JSON.stringify(script)}`),
          { [variable]: key, [address]: model.url + path, XDG_DATA_HOME: data },
        );
        expect([code, stderr]).toEqual([0, expect.any(String)]);
        expect(find(events, "process.started")[0]?.data).toMatchObject({
          credential: "outside",
          gateway: true,
        });
        const outputs = JSON.stringify(events.filter(({ type }) => type === "item.completed"));
        expect(outputs).toContain("SEARCHED [] CONTROL True");
        expect(outputs).toContain("REACHED []");
        expect(outputs).toContain("all done");
        // The provider got the key with every request, and no other credential.
        expect(model.requests.length).toBeGreaterThan(0);
        const [starts, ends] = [find(events, "model.started"), find(events, "model.ended")];
        expect(starts.length).toBe(ends.length);
        expect(starts.some(({ data: { wire } }) => wire === expected)).toBe(true);
        const measured = ends.filter(({ data }) => data.usage_source === "measured");
        expect(measured.length).toBeGreaterThanOrEqual(2);
        const turn = find(events, "turn.ended")[0];
        expect(turn?.data).toMatchObject({ status: "completed" });
        expect(JSON.stringify(events)).not.toContain(key);
      },
    );
  },
);

function find<T extends SluiceEvent["type"]>(events: readonly SluiceEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type);
}
