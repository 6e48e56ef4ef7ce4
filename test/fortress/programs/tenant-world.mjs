// Runs in a network namespace of its own, where 93.184.0.0/16 stands for the internet, and 10.0.0.0/8 and
// 169.254.0.0/16 for the network of the machine. One server records all requests, with their address.
// Prints the answers to a tenant and the recorded requests as JSON.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [bin, repositories] = process.argv.slice(2);
const PORT = 8000;
const arrived = [];

const listener = createServer((request, response) => {
  const { pathname, search, searchParams } = new URL(request.url, "http://x");
  const address = request.socket.localAddress.replace("::ffff:", "");
  arrived.push(`${address} ${pathname}`);
  if (pathname === "/redirect") return response.writeHead(302, { location: searchParams.get("to") }).end();
  if (pathname.startsWith("/redirected.git"))
    return response
      .writeHead(302, { location: `http://10.0.0.5:${PORT}/project.git${pathname.slice(15)}${search}` })
      .end();
  if (pathname.startsWith("/project.git")) return serveGit(pathname, search, request, response);
  if (pathname === "/token") return answer(response, { access_token: "renewed", expires_in: 3600 });
  if (pathname === "/closed" && request.headers.authorization !== "Bearer renewed")
    return response.writeHead(401).end();
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    if (request.method !== "POST") return response.writeHead(405).end();
    const { id, method } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const tool = { name: "find", description: "Finds a page.", inputSchema: { type: "object" } };
    const results = {
      initialize: {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "docs", version: "1" },
      },
      "tools/list": { tools: [tool] },
      "tools/call": { content: [{ type: "text", text: `a page of ${address}` }] },
    };
    answer(response, { jsonrpc: "2.0", id, result: results[method] ?? {} });
  });
});

function answer(response, value) {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function serveGit(pathname, search, request, response) {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: repositories,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      HTTP_GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "safe.directory",
      GIT_CONFIG_VALUE_0: "*",
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  request.pipe(backend.stdin);
  const chunks = [];
  backend.stdout.on("data", (chunk) => chunks.push(chunk));
  backend.stdout.on("end", () => {
    const all = Buffer.concat(chunks);
    const end = all.indexOf("\r\n\r\n");
    for (const line of all.subarray(0, end).toString().split("\r\n")) {
      const [name, value] = line.split(": ", 2);
      if (name.toLowerCase() === "status") response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(all.subarray(end + 4));
  });
}

listener.listen(PORT, "0.0.0.0");
await once(listener, "listening");

const data = mkdtempSync(join(tmpdir(), "sluice-world-"));
const keys = join(data, "keys.json");
writeFileSync(keys, '{"sk-team": "team"}', { mode: 0o600 });
const server = spawn(bin, ["serve", "--port", "7411", "--data", join(data, "data"), "--keys", keys], {
  stdio: ["ignore", "pipe", "inherit"],
});
const [line] = await once(createInterface({ input: server.stdout }), "line");
if (!line.startsWith("sluice listening")) throw new Error(line);
const token = readFileSync(join(data, "data/token"), "utf8").trim();

async function call(method, path, body, key = "sk-team") {
  const response = await fetch(`http://127.0.0.1:7411/anthropic/v1${path}`, {
    method,
    headers: {
      "x-api-key": key,
      "anthropic-beta": "managed-agents-2026-04-01",
      "content-type": "application/json",
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

async function made(path, body, key) {
  const { status, body: answered } = await call("POST", path, body, key);
  if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(answered)}`);
  return answered;
}

let named = 0;
async function makeSession({ servers = [], allowed, resources = [], vaults = [], key } = {}) {
  const networking =
    allowed === undefined ? { type: "unrestricted" } : { type: "limited", allowed_hosts: allowed };
  named += 1;
  const config = { type: "cloud", networking };
  const environment = await made("/environments", { name: `e${named}`, config }, key);
  const toolset = { default_config: { permission_policy: { type: "always_allow" } } };
  const tools = [{ type: "agent_toolset_20260401", ...toolset }];
  for (const { name } of servers) tools.push({ type: "mcp_toolset", mcp_server_name: name, ...toolset });
  const mcp_servers = servers.map((server) => ({ type: "url", ...server }));
  const agent = await made("/agents", { name: "a", model: "scripted", tools, mcp_servers }, key);
  return made(
    "/sessions",
    { agent: agent.id, environment_id: environment.id, resources, vault_ids: vaults },
    key,
  );
}

/** One turn of the scripted agent; all that the session's events say. */
async function turn(session, steps, key) {
  const content = [{ type: "text", text: `#script ${JSON.stringify(steps)}` }];
  await made(`/sessions/${session}/events`, { events: [{ type: "user.message", content }] }, key);
  return settle(session, key);
}

async function settle(session, key) {
  for (let tries = 0; tries < 300; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    const { body } = await call("GET", `/sessions/${session}/events?limit=1000`, undefined, key);
    const types = body.data.map(({ type }) => type);
    if (types.at(-1) === "session.status_idle") return JSON.stringify(body.data);
  }
  throw new Error("no end of the turn");
}

/** The requests that arrived meanwhile. */
async function during(work) {
  const from = arrived.length;
  const answered = await work();
  return { answered, arrived: arrived.slice(from) };
}

const page = (name) => [{ mcp: { server: name, tool: "find", input: {} } }, { say: "done" }];
const report = {};
try {
  const curl = (host) => [{ shell: `curl -sS -m 10 http://${host}:${PORT}/from-inside 2>&1; echo` }];
  for (const [what, host] of [
    ["public", "public.test"],
    ["private", "internal.test"],
    ["loopback", "rebound.test"],
    ["metadata", "metadata.test"],
    ["own", "own.test"],
  ]) {
    const url = `http://${host}:${PORT}`;
    report[what] = {};
    report[what].mcp = await during(async () => {
      const { id } = await makeSession({ servers: [{ name: "docs", url: `${url}/mcp` }] });
      return turn(id, page("docs"));
    });
    report[what].clone = await during(async () => {
      const resources = [{ type: "github_repository", url: `${url}/project.git` }];
      const { id } = await makeSession({ resources });
      return turn(id, [{ shell: "cat project/a.txt 2>&1" }]);
    });
    report[what].inside = await during(async () => {
      const { id } = await makeSession({ allowed: [`${host}:${PORT}`] });
      return turn(id, curl(host));
    });
    report[what].validate = await during(async () => {
      const vault = await made("/vaults", { display_name: "v" });
      const auth = { type: "mcp_oauth", mcp_server_url: `${url}/mcp`, access_token: "t" };
      const { id } = await made(`/vaults/${vault.id}/credentials`, { auth });
      return made(`/vaults/${vault.id}/credentials/${id}/mcp_oauth_validate`, {});
    });
    report[what].refresh = await during(async () => {
      const vault = await made("/vaults", { display_name: "v" });
      const refresh = {
        client_id: "c",
        refresh_token: "r",
        token_endpoint: `${url}/token`,
        token_endpoint_auth: { type: "none" },
      };
      const auth = {
        type: "mcp_oauth",
        mcp_server_url: `http://public.test:${PORT}/closed`,
        access_token: "t",
        refresh,
      };
      const { id } = await made(`/vaults/${vault.id}/credentials`, { auth });
      return made(`/vaults/${vault.id}/credentials/${id}/mcp_oauth_validate`, {});
    });
  }
  report.vault = await during(async () => {
    const url = `http://public.test:${PORT}/closed`;
    const vault = await made("/vaults", { display_name: "v" });
    const auth = { type: "static_bearer", mcp_server_url: url, token: "renewed" };
    await made(`/vaults/${vault.id}/credentials`, { auth });
    const { id } = await makeSession({ servers: [{ name: "docs", url }], vaults: [vault.id] });
    return turn(id, page("docs"));
  });
  report.redirected = await during(async () => {
    const resources = [{ type: "github_repository", url: `http://public.test:${PORT}/redirected.git` }];
    const { id } = await makeSession({ resources });
    return turn(id, [{ shell: "cat redirected/a.txt 2>&1" }]);
  });
  const answersOf = (url) => `http://public.test:${PORT}/redirect?to=${encodeURIComponent(url)}`;
  report.redirectedMcp = await during(async () => {
    const { id } = await makeSession({
      servers: [{ name: "docs", url: answersOf(`http://10.0.0.5:${PORT}/mcp`) }],
    });
    return turn(id, page("docs"));
  });
  report.owner = await during(async () => {
    const servers = [{ name: "docs", url: `http://internal.test:${PORT}/mcp` }];
    const resources = [{ type: "github_repository", url: `http://10.0.0.5:${PORT}/project.git` }];
    const { id } = await makeSession({ servers, resources, key: token });
    return turn(id, page("docs"), token);
  });
} catch (error) {
  report.failure = String(error);
} finally {
  const ended = once(server, "exit");
  server.kill("SIGTERM");
  await ended;
  rmSync(data, { recursive: true, force: true });
}
process.stdout.write(JSON.stringify(report));
process.exit(0);
