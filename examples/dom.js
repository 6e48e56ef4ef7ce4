import "./page.css";

/** The page of every example: messages, requests, a prompt, and file changes. */
document.body.innerHTML = `
  <main>
    <h1></h1>
    <div id="messages" aria-live="polite"></div>
    <div id="asks"></div>
    <form id="form"><input id="prompt" aria-label="Prompt" autofocus /><button>Send</button></form>
    <p>Files: <span id="files"></span></p>
    <p>Status: <output id="status">ready</output></p>
  </main>`;
document.querySelector("h1").textContent = document.title;

/** An element with a class and a text. */
export function element(kind, text, className = "") {
  const made = document.createElement(kind);
  made.className = className;
  made.textContent = text;
  return made;
}

/** A request of the agent, with a button for each answer. */
export function showAsks(asks, answer) {
  document.querySelector("#asks").replaceChildren(
    ...asks.map(({ id, message, options }) => {
      const row = element("p", `${message} `);
      for (const option of options) {
        const button = element("button", option.label);
        button.onclick = () => answer(id, option.payload);
        row.append(button);
      }
      return row;
    }),
  );
}

/** The possible answers to an interrupt. */
export function optionsOf(interrupt) {
  const { kind, options = [] } = interrupt.metadata?.sluice ?? {};
  if (kind === "question") return options.map((answer) => ({ label: answer, payload: { answer } }));
  return [
    { label: "Allow", payload: { approved: true } },
    { label: "Deny", payload: { approved: false } },
  ];
}

export function showFile({ type, path }) {
  document.querySelector("#files").append(`${type} ${path} `);
}

export function onPrompt(send) {
  document.querySelector("#form").onsubmit = (event) => {
    event.preventDefault();
    const input = document.querySelector("#prompt");
    const text = input.value.trim();
    if (text === "") return;
    input.value = "";
    send(text);
  };
}

export function showStatus(status) {
  document.querySelector("#status").textContent = status;
}
