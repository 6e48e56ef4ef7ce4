import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AgentInfo } from "../../client/client.ts";
import type { CreateSession, PermissionMode } from "../../contract/index.ts";
import { say } from "../core/announce.ts";
import { client, createKey, may, wordsOf } from "../core/api.ts";
import { toLine } from "../core/format.ts";
import { go } from "../core/route.ts";
import { ProblemPage } from "./problem.tsx";

const MODES: readonly PermissionMode[] = ["default", "acceptEdits", "plan", "bypass"];

/** A new session and its first message. */
export function NewSession(): JSX.Element {
  const [agents, setAgents] = useState<readonly AgentInfo[]>([]);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  const [agent, setAgent] = useState("");
  useEffect(() => {
    client.agents().then(
      (found) => {
        const sorted = found.toSorted((a, b) => Number(b.installed) - Number(a.installed));
        setAgents(sorted);
        // `acp` needs a program of its own, so nobody gets it without a choice.
        const real = sorted.find(({ installed, id }) => installed && id !== "scripted" && id !== "acp");
        setAgent(real?.id ?? "scripted");
      },
      (error: unknown) => setFailure(wordsOf(error)),
    );
  }, []);
  if (!may("control"))
    return <ProblemPage code="permission_denied" title="Not permitted" detail="This link only reads." />;
  const chosen = agents.find(({ id }) => id === agent);
  const create = async (form: FormData): Promise<void> => {
    const text = (name: string): string => String(form.get(name) ?? "").trim();
    const id = text("id") || `web-${Date.now().toString(36)}`;
    const spec: CreateSession = {
      agent,
      permissionMode: text("mode") as PermissionMode,
      ...(agent === "acp" && { command: text("command").split(/\s+/) }),
      ...(text("directory") !== "" && { directory: text("directory") }),
      ...(text("sandbox") !== "" && { sandbox: text("sandbox") }),
      ...(text("network") !== "" && { network: text("network") as "none" | "loopback" | "full" }),
      ...(text("title") !== "" && { title: text("title") }),
      ...(text("model") !== "" && { model: text("model") }),
    };
    setBusy(true);
    setFailure("");
    try {
      await client.sessions.create(id, spec, { idempotencyKey: createKey() });
      go({ name: "session", id, tab: "transcript" });
      // The session is there now: a message that fails is told beside it.
      if (text("message") !== "")
        client
          .sendMessage(id, text("message"), { idempotencyKey: createKey() })
          .catch((error: unknown) => say(`The message was not sent. ${wordsOf(error)}`, "bad"));
    } catch (error) {
      setFailure(wordsOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="page-scroll" id="main">
      <form
        class="form new-session"
        onSubmit={(event) => {
          event.preventDefault();
          void create(new FormData(event.currentTarget));
        }}
      >
        <h1>New session</h1>
        <label>
          First message
          <textarea name="message" rows={4} placeholder="what the agent should do" />
        </label>
        <fieldset>
          <legend>Agent</legend>
          <div class="agents">
            {agents.map((info) => (
              <label key={info.id} class={info.installed ? "agent" : "agent missing"}>
                <input
                  type="radio"
                  name="agent"
                  value={info.id}
                  checked={agent === info.id}
                  onChange={() => setAgent(info.id)}
                />
                {info.id}{" "}
                <span class="muted">{info.installed ? toLine(info.version ?? "", 20) : "not installed"}</span>
              </label>
            ))}
          </div>
          {chosen && !chosen.installed && (
            <p class="error">{toLine(chosen.hint ?? "Install it, then run `sluice doctor`.", 300)}</p>
          )}
        </fieldset>
        <div class="fields">
          {agent === "acp" && (
            <label>
              Program <input name="command" required placeholder="an ACP agent and its arguments" />
            </label>
          )}
          <label>
            Folder <input name="directory" placeholder="a folder of the server; empty for a fresh one" />
          </label>
          <label>
            Permissions
            <select name="mode">
              {MODES.map((mode) => (
                <option key={mode}>{mode}</option>
              ))}
            </select>
          </label>
          <label>
            Sandbox
            <select name="sandbox">
              <option value="">the server’s default</option>
              <option>bwrap</option>
              <option>docker</option>
              <option>local</option>
            </select>
          </label>
          <label>
            Network
            <select name="network">
              <option value="">the model’s hosts</option>
              <option>none</option>
              <option>loopback</option>
              <option>full</option>
            </select>
          </label>
          <label>
            Title <input name="title" placeholder="optional" />
          </label>
          <label>
            Model <input name="model" placeholder="the agent’s default" />
          </label>
          <label>
            Id <input name="id" placeholder="made for you" pattern="[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}" />
          </label>
        </div>
        {failure !== "" && (
          <p class="error" role="alert">
            {failure}
          </p>
        )}
        <div class="buttons">
          <a class="button" href="#/">
            Cancel
          </a>
          <button class="primary" disabled={busy || agent === ""}>
            Start
          </button>
        </div>
      </form>
    </main>
  );
}
