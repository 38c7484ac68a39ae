"""fit_noise.py: how far rounding alone moves the weights of a small T5 and a small BART in 200 steps of AdamW, of the way that they go.

Each gradient is multiplied by 1 + 1e-7 x normal noise, which is fp32's rounding.  On a CPU, half a minute.
"""
import torch
import transformers

V, STEPS = 800, 200
SIZES = {"d_model": 64, "vocab_size": V}
MAKE = {
    "T5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(d_ff=256, d_kv=16, num_layers=4, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0, **SIZES)),
    "BART": lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(
        encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, **SIZES)),
}


def way(name, noise):
    torch.manual_seed(0)
    model = MAKE[name]().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = [torch.randint(5, V, (8, 32)) for _ in range(8)]
    begin = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    for step in range(STEPS):
        rows = batches[step % 8]
        optimizer.zero_grad()
        model(input_ids=rows, labels=rows).loss.backward()
        for p in model.parameters():
            if noise and p.grad is not None:
                p.grad.mul_(1 + noise * torch.randn_like(p.grad))
        optimizer.step()
    return torch.cat([p.detach().double().flatten() for p in model.parameters()]) - begin


for name in MAKE:
    exact = way(name, 0)
    print(name, f"{float((way(name, 1e-7) - exact).norm() / exact.norm()):.1e}")
