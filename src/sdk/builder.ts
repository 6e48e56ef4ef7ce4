import { EventEmitter } from "node:events";
import type { LifecycleEvent, OutputEvent } from "../dialects/sdk/events.ts";
import type { Emitted } from "../dialects/sdk/index.ts";
import type { SandboxProvider } from "../sandbox/index.ts";
import { type FileMap, toInnerPath } from "./files/workspace.ts";
import { Budget } from "../contract/index.ts";
import { refuse } from "./agent-response.ts";
import { type AgentConfig, initialSettings, type McpServerConfig, type Settings } from "./settings.ts";
import { type StorageConfig, toCheckpointStore } from "./storage.ts";

/**
 * The SDK's events and the arguments of their listeners.
 *
 * @example
 * const log = (...[event]: SluiceListeners["lifecycle"]): void => console.log(event.reason);
 * sluice.on("lifecycle", log);
 */
export interface SluiceListeners {
  /** Messages, tool calls and plans of the agent. */
  content: [event: OutputEvent];
  /** Changes of the sandbox, the run or the command. */
  lifecycle: [event: LifecycleEvent];
  /** Output of the agent's CLI or of a command. */
  stdout: [chunk: string];
  stderr: [chunk: string];
  /** The failure of a listener. Without an `error` listener it becomes a warning of the process. */
  error: [error: Error];
}

/** An emitter whose listeners may fail: the other listeners are called all the same. */
export class SafeEmitter extends EventEmitter<SluiceListeners> {
  protected report(emitted: Emitted): void {
    const value = "event" in emitted ? emitted.event : emitted.chunk;
    for (const listener of this.rawListeners(emitted.type)) {
      try {
        const result: unknown = (listener as (value: unknown) => unknown).call(this, value);
        if (result instanceof Promise) result.catch((error: unknown) => this.#reportFailure(error));
      } catch (error) {
        this.#reportFailure(error);
      }
    }
  }

  #reportFailure(thrown: unknown): void {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    if (this.listenerCount("error") === 0) return process.emitWarning(error);
    try {
      this.emit("error", error);
    } catch (second) {
      process.emitWarning(second instanceof Error ? second : String(second));
    }
  }
}

/** The builders: an instance's settings before its first run. */
export abstract class Builder extends SafeEmitter {
  protected readonly settings: Settings = initialSettings();

  /** Makes the next call open a new connection. */
  protected abstract reconnect(): this;

  /**
   * The agent (default: `scripted`, which needs no model).
   *
   * @example
   * new Sluice().withAgent({ type: "codex", model: "gpt-5", reasoningEffort: "high" });
   */
  withAgent(agent: AgentConfig): this {
    this.settings.agent = { ...agent };
    return this;
  }

  /**
   * The sandbox: the name of a provider (`bwrap`, `docker`, `local`, `kubernetes`, `ssh://user@host`), or your own
   * provider for an engine in this process. The default is `bwrap`, or else `docker`. The others have to be named.
   *
   * @example
   * new Sluice().withSandbox("docker");
   */
  withSandbox(provider: string | SandboxProvider): this {
    this.settings.sandbox = provider;
    return this.reconnect();
  }

  /**
   * The folder to work in. A folder of this machine becomes the workspace, which is empty by default. A folder below
   * `/home/user/workspace` is created in the sandbox.
   *
   * @example
   * new Sluice().withWorkingDirectory(process.cwd());
   */
  withWorkingDirectory(directory: string): this {
    this.settings.directory = directory;
    return this;
  }

  /**
   * Environment variables for the agent and for commands. Their values are in no event and in no database.
   *
   * @example
   * new Sluice().withSecrets({ DATABASE_URL: "postgres://…" });
   */
  withSecrets(secrets: Record<string, string>): this {
    this.settings.secrets = { ...this.settings.secrets, ...secrets };
    return this;
  }

  /**
   * Text to add to the agent's own system prompt.
   *
   * @example
   * new Sluice().withSystemPrompt("Answer in French.");
   */
  withSystemPrompt(prompt: string): this {
    this.settings.systemPrompt = prompt;
    return this;
  }

  /**
   * Files for `/home/user/workspace/context/`, uploaded when the sandbox is created.
   *
   * @example
   * new Sluice().withContext({ "spec.json": JSON.stringify({ version: 1 }) });
   */
  withContext(files: FileMap): this {
    for (const path of Object.keys(files)) toInnerPath(path);
    this.settings.context = { ...this.settings.context, ...files };
    return this;
  }

  /**
   * Files for `/home/user/workspace/`, uploaded when the sandbox is created.
   *
   * @example
   * new Sluice().withFiles(readLocalDir("./project", true));
   */
  withFiles(files: FileMap): this {
    for (const path of Object.keys(files)) toInnerPath(path);
    this.settings.files = { ...this.settings.files, ...files };
    return this;
  }

  /**
   * Limits of dollars, tokens, model requests and minutes of work, for all runs of the session together. When one is
   * reached, `on` says what happens: `ask` (a request that you answer like a permission), `pause`, or `stop`.
   *
   * @example
   * new Sluice().withBudget({ usd: 2, minutes: 30 });
   */
  withBudget(budget: Budget): this {
    const parsed = Budget.safeParse(budget);
    if (!parsed.success) throw refuse(`withBudget: ${parsed.error.issues[0]?.message ?? "not a budget"}`);
    this.settings.budget = parsed.data;
    return this;
  }

  /**
   * MCP servers for the agent, by name.
   *
   * @example
   * new Sluice().withMcpServers({ docs: { url: "https://example.com/mcp" } });
   */
  withMcpServers(servers: Record<string, McpServerConfig>): this {
    this.settings.mcp = { ...this.settings.mcp, ...servers };
    return this;
  }

  /**
   * Makes a checkpoint of every run that succeeds: in a folder, in an S3 bucket, or in the engine's own storage. A
   * server uses its own storage and keeps the checkpoints of each configuration separate.
   *
   * @example
   * new Sluice().withStorage("./checkpoints");
   * new Sluice().withStorage({ s3: { bucket: "my-checkpoints", prefix: "team-a" } });
   */
  withStorage(storage?: StorageConfig): this {
    this.settings.checkpointStore = toCheckpointStore(storage);
    return this.reconnect();
  }

  /**
   * Runs on a server (`sluice serve`) instead of in this process.
   *
   * @example
   * new Sluice().withServer("http://127.0.0.1:7411", process.env.SLUICE_TOKEN);
   */
  withServer(url: string, token?: string): this {
    this.settings.server = { url, token };
    return this.reconnect();
  }

  /**
   * The data folder of an engine in this process (default: that of the command line).
   *
   * @example
   * new Sluice().withData("./.sluice");
   */
  withData(folder: string): this {
    this.settings.data = folder;
    return this.reconnect();
  }
}
