import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect as connectTcp, type Socket } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import type { AnyAuthMethod, Client, ClientChannel, ConnectConfig, ServerHostKeyAlgorithm } from "ssh2";
import { SluiceError } from "../../contract/index.ts";
import type { SshAddress } from "./address.ts";
import { ChannelStream } from "./channel.ts";
import { run, type RunResult, toPutCommand, toUpCommand } from "./command.ts";
import { findHostKeys, isKnownKey } from "./host-keys.ts";

const READY_MS = 20_000;
/** A login shell and the start of Node take seconds. A slow line takes minutes for the runner's file. */
const LIMITS: SshLimits = { openMs: READY_MS, startMs: 60_000, copyMs: 600_000 };

/** How long the machine may take. A machine that takes longer is dead, and its connection with it. */
interface SshLimits {
  /** To open a channel. */
  readonly openMs: number;
  /** To find or start the runner. */
  readonly startMs: number;
  /** To take the runner's file. */
  readonly copyMs: number;
}

interface Connection {
  readonly client: Client;
  readonly socket: Socket;
  /** The path of the runner's socket on the machine. */
  runner: string | undefined;
}

/** One SSH connection to a machine, made when it is needed and made again after a loss. Its runner is started there. */
export class SshMachine {
  readonly #address: SshAddress;
  readonly #program: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #limits: SshLimits;
  readonly #active = new Set<unknown>();
  #connection: Promise<Connection> | undefined;
  #starting: Promise<string> | undefined;

  constructor(
    address: SshAddress,
    options: { program: string; env?: NodeJS.ProcessEnv; limits?: SshLimits },
  ) {
    this.#address = address;
    this.#program = options.program;
    this.#env = options.env ?? process.env;
    this.#limits = options.limits ?? LIMITS;
  }

  /** A stream straight to the runner's socket. */
  dial = async (): Promise<Duplex> => {
    const connection = await this.#connect();
    return this.#keeping(connection, async () => {
      const path = connection.runner ?? (await this.#startRunner(connection));
      const stream = await this.#forward(connection, path).catch(async (error: Error) => {
        if (!isRefused(error)) throw error;
        // The runner was killed. Another one goes on with its files.
        return this.#forward(connection, await this.#startRunner(connection));
      });
      return this.#counted(new ChannelStream(stream, connection.client), connection.socket);
    });
  };

  /** The standard streams of a command there. */
  async open(command: string): Promise<Duplex> {
    const connection = await this.#connect();
    return this.#keeping(connection, async () => {
      const { client, socket } = connection;
      const opening = openCommand(client, command);
      const channel = await this.#within(this.#limits.openMs, connection, opening);
      channel.stderr.resume();
      return this.#counted(new ChannelStream(channel, client), socket);
    });
  }

  #connect(): Promise<Connection> {
    const connecting = this.#connection ?? this.#open();
    this.#connection = connecting;
    connecting.catch(() => this.#drop(connecting));
    return connecting;
  }

  async #open(): Promise<Connection> {
    const { host, port, user } = this.#address;
    const keys = findHostKeys(this.#address, this.#env);
    const { Client } = await loadSsh();
    const methods = await findMethods(user, this.#env);
    // Not the keep-alive of SSH: its timer would keep this program from its exit.
    const socket = connectTcp({ host, port, keepAlive: true, keepAliveInitialDelay: 10_000, noDelay: true });
    const client = new Client();
    const types = [...new Set(keys.filter(({ isRevoked }) => !isRevoked).map(({ type }) => type))];
    let isForeign = false;
    const config: ConnectConfig = {
      sock: socket,
      username: user,
      readyTimeout: READY_MS,
      authHandler: methods,
      algorithms: { serverHostKey: toAlgorithms(types) },
      hostVerifier: (shown: Buffer) => {
        isForeign = !isKnownKey(shown, keys);
        return !isForeign;
      },
    };
    await new Promise<void>((resolve, reject) => {
      const fail = (error: Error): void =>
        reject(isForeign ? foreignKey(this.#address) : toFailure(this.#address, error));
      socket.once("error", fail);
      client
        .once("ready", resolve)
        .once("error", fail)
        .once("close", () => fail(new Error("it was closed")));
      client.connect(config);
    }).catch((error: unknown) => {
      client.on("error", () => {}).end();
      socket.on("error", () => {}).destroy();
      throw error;
    });
    const forget = (): void => this.#drop();
    client.on("error", forget).on("close", forget);
    this.#rest(socket);
    return { client, socket, runner: undefined };
  }

  #drop(which: Promise<Connection> | undefined = this.#connection): void {
    if (this.#connection === which) this.#connection = undefined;
  }

  /** Copies the runner's file, where it is missing, and starts it, where none answers. */
  #startRunner(connection: Connection): Promise<string> {
    this.#starting ??= this.#start(connection)
      .then((path) => (connection.runner = path))
      .finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #start(connection: Connection): Promise<string> {
    const content = await readFile(this.#program).catch((cause: unknown) => {
      throw new SluiceError("internal", `${this.#program} is missing. Run: npm run build`, {}, { cause });
    });
    const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
    for (const isLast of [false, true]) {
      const { stdout, stderr } = await this.#run(connection, toUpCommand(hash));
      const found = /^\{"socket":.*$/m.exec(stdout)?.[0];
      if (found !== undefined) return (JSON.parse(found) as { socket: string }).socket;
      if (/^no-node$/m.test(stdout)) throw this.#unfit("Node is not on its PATH");
      if (/^old-node$/m.test(stdout)) throw this.#unfit("its Node is older than 20");
      if (isLast || !/^need$/m.test(stdout)) {
        const why = stderr.trim().slice(-500) || stdout.trim().slice(-500) || "it said nothing";
        throw new SluiceError(
          "sandbox_unreachable",
          `The runner on ${this.#address.name} did not start: ${why}`,
        );
      }
      const put = await this.#run(connection, toPutCommand(hash), content);
      if (put.code !== 0) {
        const detail = `The runner could not be copied to ${this.#address.name}: ${put.stderr.trim().slice(-500)}`;
        throw new SluiceError(
          /space|quota/i.test(put.stderr) ? "storage_full" : "sandbox_unreachable",
          detail,
        );
      }
    }
    throw new Error("unreachable");
  }

  #forward(connection: Connection, path: string): Promise<ClientChannel> {
    return this.#within(this.#limits.openMs, connection, forward(connection.client, path));
  }

  #run(connection: Connection, command: string, input?: Buffer): Promise<RunResult> {
    const { startMs, copyMs } = this.#limits;
    return this.#within(input ? copyMs : startMs, connection, run(connection.client, command, input));
  }

  async #within<T>(ms: number, { socket }: Connection, work: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        this.#drop();
        socket.destroy();
        reject(toFailure(this.#address, new Error("it does not answer")));
      }, ms);
    });
    return Promise.race([work, late]).finally(() => clearTimeout(timer));
  }

  #unfit(why: string): SluiceError {
    const detail = `${this.#address.name} cannot run agents: ${why}. Install Node 20.19 or newer there, for ${this.#address.user}.`;
    return new SluiceError("unsupported_sandbox", detail);
  }

  /** An idle connection does not keep this program alive, a used one does. */
  #counted(stream: Duplex, socket: Socket): Duplex {
    const ref = (): Duplex => (this.#active.add(stream), socket.ref(), stream);
    const unref = (): Duplex => (this.#active.delete(stream), this.#rest(socket), stream);
    ref();
    stream.on("close", unref);
    return Object.assign(stream, { ref, unref });
  }

  async #keeping<T>({ socket }: Connection, work: () => Promise<T>): Promise<T> {
    this.#active.add(work);
    socket.ref();
    return work().finally(() => {
      this.#active.delete(work);
      this.#rest(socket);
    });
  }

  #rest(socket: Socket): void {
    if (this.#active.size === 0) socket.unref();
  }
}

function forward(client: Client, path: string): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.openssh_forwardOutStreamLocal(path, (error, stream) => (error ? reject(error) : resolve(stream)));
  });
}

function openCommand(client: Client, command: string): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.exec(command, (error, stream) => (error ? reject(error) : resolve(stream)));
  });
}

/** The reason 2 of SSH: the connection to the socket failed. */
function isRefused(error: Error): boolean {
  return (error as { reason?: unknown }).reason === 2 || /connect failed|refused/i.test(error.message);
}

/** RSA keys have one type in known hosts, and several algorithms. */
function toAlgorithms(types: readonly string[]): ServerHostKeyAlgorithm[] {
  return types.flatMap((type) =>
    type === "ssh-rsa" ? ["rsa-sha2-512", "rsa-sha2-256"] : [type],
  ) as ServerHostKeyAlgorithm[];
}

/** The key of SLUICE_SSH_KEY alone, or the agent's keys and those of ~/.ssh that have no passphrase. */
async function findMethods(username: string, env: NodeJS.ProcessEnv): Promise<AnyAuthMethod[]> {
  const named = env["SLUICE_SSH_KEY"];
  const { utils } = await loadSsh();
  if (named !== undefined && named !== "") {
    const key = readKey(named);
    const parsed = key === undefined ? new Error("it cannot be read") : utils.parseKey(key);
    if (!(parsed instanceof Error) && key) return [{ type: "publickey", username, key }];
    const detail = `SLUICE_SSH_KEY names ${named}, which is no usable private key: ${(parsed as Error).message}. A key with a passphrase belongs into the SSH agent.`;
    throw new SluiceError("permission_denied", detail);
  }
  const agent = env["SSH_AUTH_SOCK"];
  const folder = join(env["HOME"] ?? homedir(), ".ssh");
  const keys = ["id_ed25519", "id_ecdsa", "id_rsa"]
    .map((name) => readKey(join(folder, name)))
    .filter((key) => key !== undefined && !(utils.parseKey(key) instanceof Error));
  return [
    ...(agent === undefined || agent === "" ? [] : [{ type: "agent" as const, username, agent }]),
    ...keys.map((key) => ({ type: "publickey" as const, username, key: key as Buffer })),
  ];
}

function readKey(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

function foreignKey({ name }: SshAddress): SluiceError {
  const detail = `${name} shows another host key than the known hosts have for it, so nothing is sent there. Either the machine was set up anew, or somebody is in between: ask its owner before you change the known hosts.`;
  return new SluiceError("permission_denied", detail);
}

function toFailure({ name, user }: SshAddress, error: Error): SluiceError {
  if ((error as { level?: string }).level === "client-authentication") {
    const detail = `${name} accepts no key of this server. Add a public key of it to ~${user}/.ssh/authorized_keys there, or name another key with SLUICE_SSH_KEY.`;
    return new SluiceError("permission_denied", detail, {}, { cause: error });
  }
  const detail = `${name} cannot be reached now: ${error.message}. What runs there goes on.`;
  return new SluiceError("sandbox_unreachable", detail, {}, { cause: error });
}

export async function loadSsh(): Promise<typeof import("ssh2")> {
  const module = await import("ssh2").catch((cause: unknown) => {
    const detail = "The sandbox ssh needs the package ssh2. Run: npm install ssh2";
    throw new SluiceError("unsupported_sandbox", detail, {}, { cause });
  });
  return (module as { default?: typeof import("ssh2") }).default ?? module;
}
