import { createClient, type SluiceClient } from "../../client/index.ts";
import { isOpenSandbox, SluiceError } from "../../contract/index.ts";
import type { SandboxProvider } from "../../sandbox/index.ts";
import { type Backend, codeOf, type Link, toCheckpointInfo } from "./port.ts";

export interface RemoteOptions {
  readonly url: string;
  readonly token?: string | undefined;
  readonly sandbox: string | SandboxProvider | undefined;
}

/** The backend of a server, which keeps the sandboxes and the checkpoints. */
export function createRemoteBackend({ url, token, sandbox }: RemoteOptions): Backend {
  return {
    async open() {
      if (typeof sandbox === "object") {
        const detail = `A server has its own providers: name one, such as withSandbox("${sandbox.id}"), instead of giving an object.`;
        throw new SluiceError("unsupported_sandbox", detail);
      }
      const client = createClient({ url, ...(token === undefined ? {} : { token }) });
      return toLink(client, url, sandbox);
    },
  };
}

function toLink(client: SluiceClient, url: string, sandbox: string | undefined): Link {
  return {
    sandbox,
    isolated: !isOpenSandbox(sandbox),
    create: async (id, spec) => void (await client.sessions.create(id, spec)),
    find: (id) =>
      client.sessions.get(id).catch((error: unknown) => {
        if (codeOf(error) === "session_not_found") return undefined;
        throw error;
      }),
    async send(id, message, options) {
      const sent = await client.sendMessage(id, { message, delivery: "alone", options });
      return sent.turnId;
    },
    exec: async (id, command) => (await client.runCommand(id, command)).commandId,
    async interrupt(id) {
      const { turnId, commandId } = await client.interrupt(id);
      return turnId !== undefined || commandId !== undefined;
    },
    terminate: (id, options) => client.terminate(id, options),
    pause: (id) => client.pause(id),
    resume: (id) => client.resume(id),
    async host(id, port) {
      const { origin } = await client.host(id, port);
      // A port on another machine is reached through its server, with the token.
      return isLocal(url) ? origin : client.portUrl(id, port, "").replace(/\/$/, "");
    },
    files: {
      read: (id, path) => client.fs.read(id, path),
      write: (id, path, content) => client.fs.write(id, path, content),
      mkdir: (id, path) => client.fs.mkdir(id, path),
      list: (id, path) => client.fs.entries(id, path),
    },
    checkpoint: async (id, { comment }) =>
      toCheckpointInfo(await client.checkpoints.create(id, comment === undefined ? {} : { comment })),
    restore: async (id, checkpoint) => void (await client.checkpoints.restore(id, checkpoint)),
    listCheckpoints: async (store, options) =>
      (await client.checkpoints.shelved(store, options)).map(toCheckpointInfo),
    read: async (id, page) => (await client.events.page(id, { ...page, extensions: true })).events,
    follow: (id, options) => client.subscribe(id, { ...options, extensions: true }),
    close: () => Promise.resolve(),
  };
}

function isLocal(url: string): boolean {
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}
