import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface GitHost {
  readonly url: string;
  /** Every received `Authorization`. */
  authorizations(): string[];
  close(): Promise<void>;
}

/** `git http-backend` on loopback, with `team/project.git` behind a token. */
export async function openGitHost(token: string): Promise<GitHost> {
  const root = await mkdtemp(join(tmpdir(), "sluice-git-host-"));
  const make = `
    git init --quiet --bare team/project.git &&
    git clone --quiet team/project.git work 2>/dev/null && cd work && git checkout --quiet -b main &&
    printf 'over http' > a.txt && git add . &&
    git -c user.name=t -c user.email=t@t commit --quiet -m one && git push --quiet origin main &&
    git -C ../team/project.git symbolic-ref HEAD refs/heads/main`;
  execFileSync("sh", ["-c", make], { cwd: root });
  const heard: string[] = [];
  const wanted = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    if (authorization !== undefined) heard.push(authorization);
    if (authorization === wanted) return void serve(root, request, response);
    response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    authorizations: () => [...heard],
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
      await rm(root, { recursive: true });
    },
  };
}

/** CGI: headers, an empty line, the body. */
async function serve(root: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, search } = new URL(request.url ?? "/", "http://git");
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      HTTP_GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  for await (const chunk of backend.stdout) chunks.push(chunk as Buffer);
  const all = Buffer.concat(chunks);
  const end = all.indexOf("\r\n\r\n");
  for (const line of all.subarray(0, end).toString().split("\r\n")) {
    const [name = "", value = ""] = line.split(": ", 2);
    if (name.toLowerCase() === "status") response.statusCode = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
  response.end(all.subarray(end + 4));
}
