#include "apps/serve/page.h"

namespace lathe::llm::serve {

const std::string_view kChatPage = R"page(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lathe chat</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { margin: 0 auto; max-width: 46rem; min-height: 100vh; display: flex; flex-direction: column; padding: 0 1rem; }
  header { display: flex; gap: .6rem; align-items: center; padding: .8rem 0; flex-wrap: wrap; }
  h1 { font-size: 1.1rem; margin: 0; flex: 1; }
  input, textarea, button { font: inherit; padding: .4rem .6rem; border: 1px solid #8888; border-radius: .4rem; background: none; color: inherit; }
  input.small { width: 4.5rem; }
  main { flex: 1; }
  .turn { white-space: pre-wrap; overflow-wrap: anywhere; padding: .6rem .8rem; margin: .5rem 0; border-radius: .6rem; }
  .user { background: #4a7dff22; margin-left: 3rem; }
  .assistant { background: #8881; margin-right: 3rem; }
  .error { color: #c33; }
  form { display: flex; gap: .5rem; padding: .8rem 0; position: sticky; bottom: 0; background: Canvas; }
  textarea { flex: 1; resize: vertical; min-height: 2.6rem; }
  footer { font-size: .8rem; opacity: .7; padding-bottom: .5rem; min-height: 1.4em; }
</style>
<header>
  <h1 id="model">Lathe</h1>
  <label>temperature <input class="small" id="temperature" type="number" min="0" max="2" step="0.1" value="0.7"></label>
  <label>tokens <input class="small" id="most" type="number" min="1" value="512"></label>
  <input id="key" type="password" placeholder="API key" size="10" autocomplete="off">
  <button id="fresh" type="button">New chat</button>
</header>
<main id="turns" aria-live="polite"></main>
<form id="form">
  <textarea id="text" placeholder="Say something" autofocus></textarea>
  <button id="send">Send</button>
</form>
<footer id="status"></footer>
<script>
const $ = id => document.getElementById(id);
let messages = [], running = null, model = null, chat = true;
const headers = () => ({ "Content-Type": "application/json", ...($("key").value && { Authorization: "Bearer " + $("key").value }) });

async function find() {
  try {
    const found = await (await fetch("v1/models", { headers: headers() })).json();
    if (found.data) { model = found.data[0].id; chat = found.data[0].chat; $("model").textContent = model; }
    $("status").textContent = found.error ? found.error.message : chat ? "" : "This model has no chat template: it continues your text.";
  } catch (error) { $("status").textContent = String(error); }
}

function turn(kind, text) {
  const at = document.createElement("div");
  at.className = "turn " + kind;
  at.textContent = text;
  $("turns").append(at);
  return at;
}

async function send(text) {
  turn("user", text);
  messages.push({ role: "user", content: text });
  const shown = turn("assistant", "");
  running = new AbortController();
  $("send").textContent = "Stop";
  const begin = performance.now();
  let answer = "", usage = null;
  try {
    const body = { model, stream: true, stream_options: { include_usage: true }, temperature: +$("temperature").value, max_tokens: +$("most").value };
    if (chat) body.messages = messages; else body.prompt = text;
    const reply = await fetch(chat ? "v1/chat/completions" : "v1/completions", { method: "POST", headers: headers(), body: JSON.stringify(body), signal: running.signal });
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const piece = JSON.parse(line.slice(6));
        if (piece.error) throw new Error(piece.error.message);
        usage = piece.usage || usage;
        for (const choice of piece.choices) answer += (chat ? choice.delta.content : choice.text) || "";
        shown.textContent = answer;
        scrollTo(0, document.body.scrollHeight);
      }
    }
    const seconds = (performance.now() - begin) / 1000;
    if (usage) $("status").textContent = `${usage.prompt_tokens} + ${usage.completion_tokens} tokens, ${(usage.completion_tokens / seconds).toFixed(1)} tokens/s`;
  } catch (error) {
    if (error.name !== "AbortError") { shown.classList.add("error"); shown.textContent = answer + "\n" + error.message; }
  }
  messages.push({ role: "assistant", content: answer });
  running = null;
  $("send").textContent = "Send";
}

$("form").addEventListener("submit", event => {
  event.preventDefault();
  if (running) return running.abort();
  const text = $("text").value.trim();
  if (!text) return;
  $("text").value = "";
  send(text);
});
$("text").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); $("form").requestSubmit(); }
});
$("fresh").addEventListener("click", () => { if (running) running.abort(); messages = []; $("turns").textContent = ""; });
$("key").addEventListener("change", find);
find();
</script>
</html>
)page";

}  // namespace lathe::llm::serve
